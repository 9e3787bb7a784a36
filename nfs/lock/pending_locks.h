// The LOCK calls that have arrived and are not finished, which later calls may give up.
#ifndef POLLUX_NFS_LOCK_PENDING_LOCKS_H_
#define POLLUX_NFS_LOCK_PENDING_LOCKS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "nfs/lock/lock_table.h"

namespace pollux::nfs {

struct PendingLock {
  PendingLock(LockRequest requested, std::optional<uint32_t> monitor_state)
      : request(std::move(requested)), state(monitor_state) {}

  const LockRequest request;
  const std::optional<uint32_t> state;  // of the client's status monitor, if the lock is monitored
  // Set to false once: by LockTable::Lock(), which then decides, or before that by
  // PendingLocks::GiveUp(), which has the lock denied.
  std::atomic<bool> undecided{true};
};

// The storage threads run calls at once and in any order. So an UNLOCK, a CANCEL or the report of a
// restart may be done while an earlier LOCK still opens its file; if that was granted then, nobody
// would release it. Such a call therefore gives up, when it arrives, the LOCK calls that arrived
// before it. Thread-safe; does not block. The storage of the exports limits the number of calls.
class PendingLocks {
 public:
  // Call it when the LOCK arrives. The call is pending as long as the result exists.
  std::shared_ptr<PendingLock> Add(LockRequest request, std::optional<uint32_t> state) {
    auto added = std::make_shared<PendingLock>(std::move(request), state);
    const std::lock_guard lock(mutex_);
    std::erase_if(all_, [](const auto& pending) { return pending.expired(); });
    all_.push_back(added);
    return added;
  }
  // Has the undecided calls denied that match. Returns whether there are any.
  bool GiveUp(absl::FunctionRef<bool(const PendingLock& pending)> matches) {
    const std::lock_guard lock(mutex_);
    bool any = false;
    for (const auto& one : all_) {
      const auto pending = one.lock();
      if (pending != nullptr && matches(*pending)) any |= pending->undecided.exchange(false);
    }
    return any;
  }
  // The hosts that sent the calls.
  std::set<Gid> Hosts() {
    const std::lock_guard lock(mutex_);
    std::set<Gid> hosts;
    for (const auto& one : all_) {
      if (const auto pending = one.lock()) hosts.insert(pending->request.owner.client.address);
    }
    return hosts;
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<PendingLock>> all_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_LOCK_PENDING_LOCKS_H_
