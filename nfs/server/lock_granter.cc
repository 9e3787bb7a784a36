#include "nfs/server/lock_granter.h"

#include <chrono>
#include <utility>

namespace pollux::nfs {
namespace {

// How often it is looked for locks that this host's programs have given up: they do not say.
constexpr auto kLookAgain = std::chrono::seconds(1);

}  // namespace

std::shared_ptr<LockGranter> LockGranter::Start(const ServedExports* exports, Tell tell) {
  std::shared_ptr<LockGranter> granter(new LockGranter(exports, std::move(tell)));
  granter->thread_ = std::thread([raw = granter.get()] { raw->Work(); });
  return granter;
}

void LockGranter::Stop() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_one();
  }
  thread_.join();
}

void LockGranter::Deliver(ServedExport* served) {
  if (served->locks.waiting() == 0) return;
  std::vector<LockTable::Grant> grants = served->locks.TakeGrants();
  const std::lock_guard lock(mutex_);
  for (LockTable::Grant& grant : grants) {
    pending_.push_back({.served = served, .grant = std::move(grant), .taken = {}});
  }
  if (!grants.empty()) changed_.notify_one();
}

void LockGranter::Work() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (pending_.empty()) {
      changed_.wait_for(lock, kLookAgain, [this] { return ending_ || !pending_.empty(); });
    }
    if (ending_) return;
    std::optional<Pending> next;
    if (!pending_.empty()) {
      next = std::move(pending_.front());
      pending_.pop_front();
    }
    lock.unlock();
    const bool handled = !next.has_value() || Handle(*next);
    if (!next.has_value()) LookAgain();
    lock.lock();
    if (handled) continue;
    pending_.push_back(*std::move(next));
    changed_.wait_for(lock, kLookAgain, [this] { return ending_; });
  }
}

bool LockGranter::Handle(Pending& pending) {
  if (!pending.taken.has_value()) pending.taken = tell_(pending.grant.request);
  return pending.served->storage->RunControl([self = shared_from_this(), served = pending.served,
                                              number = pending.grant.number,
                                              taken = *pending.taken](Identity&) {
    served->locks.Told(number, taken);
    self->Deliver(served);
  });
}

void LockGranter::LookAgain() {
  for (const auto& served : exports_->all()) {
    if (served->locks.waiting() == 0) continue;
    served->storage->RunControl(
        [self = shared_from_this(), raw = served.get()](Identity&) { self->Deliver(raw); });
  }
}

}  // namespace pollux::nfs
