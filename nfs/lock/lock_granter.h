// Tells clients of locks that they waited for: the NLM calls that a server makes of its clients.
#ifndef POLLUX_NFS_LOCK_LOCK_GRANTER_H_
#define POLLUX_NFS_LOCK_LOCK_GRANTER_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "nfs/lock/lock_tables.h"
#include "nfs/server/served_export.h"
#include "stack/base/types.h"

namespace pollux::nfs {

// To a client one after the other, to several at once: so that one that does not answer holds up
// its own alone. What clients cannot be told they find out when they ask again.
class LockGranter : public std::enable_shared_from_this<LockGranter> {
 public:
  static constexpr size_t kThreads = 8;  // so many silent clients hold up others

  // Whether the lock's owner wants it still. Blocks. From several threads at once.
  using Tell = absl::AnyInvocable<bool(const LockRequest& request)>;

  // `exports` outlives it; their storage's work may hold it until its end, and `tables` outlives
  // both.
  static std::shared_ptr<LockGranter> Start(const ServedExports* exports, LockTables* tables,
                                            Tell tell);
  // Waits for the threads, which tell nobody any more. Once.
  void Stop();

  // Takes up what has been granted in an export. On a thread of its storage.
  void Deliver(ServedExport* served);

 private:
  // A grant on its way.
  struct Pending {
    ServedExport* served = nullptr;
    LockTable::Grant grant;
    std::optional<bool> taken;  // the client's answer
  };

  LockGranter(const ServedExports* exports, LockTables* tables, Tell tell)
      : exports_(exports), tables_(tables), tell_(std::move(tell)) {}
  static const Gid& ClientOf(const Pending& pending) {
    return pending.grant.request.owner.client.address;
  }
  void Work();
  // The first whose client is told nothing now; pending_.end() for none.
  std::deque<Pending>::iterator FindNext();
  // One of the threads at a time: while the others wait for clients.
  void LookAgainIfDue(std::unique_lock<std::mutex>* lock);
  // False: to be tried again.
  bool Handle(Pending& pending);
  void LookAgain();

  const ServedExports* exports_;
  LockTables* tables_;
  Tell tell_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::deque<Pending> pending_;  // as many as LockLimits::waiting of each export
  std::set<Gid> told_;           // now
  std::chrono::steady_clock::time_point look_at_;
  std::vector<std::thread> threads_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_LOCK_LOCK_GRANTER_H_
