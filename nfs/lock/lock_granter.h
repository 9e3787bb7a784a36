// Notifies clients, by NLM calls, of granted locks for which they waited.
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

// Each client gets one call at a time and several clients are called at once, so that a client that
// does not answer delays only its own calls. A client that cannot be notified learns of its lock
// when it asks again. A client that the export no longer admits is not called and loses the grant.
class LockGranter : public std::enable_shared_from_this<LockGranter> {
 public:
  static constexpr size_t kThreads = 8;  // this many silent clients delay calls to others

  // Notifies the lock's owner. Returns whether it still wants the lock. Blocks; called on several
  // threads at once.
  using Tell = absl::AnyInvocable<bool(const LockRequest& request)>;

  // `exports` must exist until Stop() has returned. Work in their storage may keep this object
  // alive until it is done; `tables` must outlive both.
  static std::shared_ptr<LockGranter> Start(const ServedExports* exports, LockTables* tables,
                                            Tell tell);
  // Stops notifying and waits for the threads. Call it once.
  void Stop();

  // Queues notifications of the locks that have been granted in an export. Called on one of its
  // storage threads.
  void Deliver(ServedExport* served);

 private:
  // A grant whose notification is not finished.
  struct Pending {
    ServedExport* served = nullptr;
    LockTable::Grant grant;
    std::optional<bool> taken;  // the client's reply
  };

  LockGranter(const ServedExports* exports, LockTables* tables, Tell tell)
      : exports_(exports), tables_(tables), tell_(std::move(tell)) {}
  static const Gid& ClientOf(const Pending& pending) {
    return pending.grant.request.owner.client.address;
  }
  void Work();
  // The first grant whose client is not being called now; pending_.end() if there is none.
  std::deque<Pending>::iterator FindNext();
  // Calls LookAgain() once per interval, on one thread, while the others wait for clients.
  void LookAgainIfDue(std::unique_lock<std::mutex>* lock);
  // Whether the export of the lock still admits the client: the exports may have been replaced
  // while it waited.
  bool IsAdmitted(const Pending& pending) const;
  // Returns false if it must be tried again.
  bool Handle(Pending& pending);
  void LookAgain();

  const ServedExports* exports_;
  LockTables* tables_;
  Tell tell_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::deque<Pending> pending_;  // at most LockLimits::waiting per export
  std::set<Gid> told_;           // the clients that are being called now
  std::chrono::steady_clock::time_point look_at_;
  std::vector<std::thread> threads_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_LOCK_LOCK_GRANTER_H_
