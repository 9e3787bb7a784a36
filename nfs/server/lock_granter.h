// Tells clients of locks that they waited for: the NLM calls that a server makes of its clients.
#ifndef POLLUX_NFS_SERVER_LOCK_GRANTER_H_
#define POLLUX_NFS_SERVER_LOCK_GRANTER_H_

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "nfs/server/lock_table.h"
#include "nfs/server/served_export.h"

namespace pollux::nfs {

// One thread, which waits for one client after the other; what clients cannot be told they find out
// when they ask again.
class LockGranter : public std::enable_shared_from_this<LockGranter> {
 public:
  // Whether the lock's owner wants it still. Blocks.
  using Tell = absl::AnyInvocable<bool(const LockRequest& request)>;

  // `exports` outlives it; their storage's work may hold it until its end.
  static std::shared_ptr<LockGranter> Start(const ServedExports* exports, Tell tell);
  // Waits for the thread, which tells nobody any more. Once.
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

  LockGranter(const ServedExports* exports, Tell tell)
      : exports_(exports), tell_(std::move(tell)) {}
  void Work();
  // False: to be tried again.
  bool Handle(Pending& pending);
  void LookAgain();

  const ServedExports* exports_;
  Tell tell_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::deque<Pending> pending_;  // as many as LockTable::kMaxWaiting of each export
  std::thread thread_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_SERVER_LOCK_GRANTER_H_
