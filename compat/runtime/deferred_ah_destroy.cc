#include "compat/runtime/deferred_ah_destroy.h"

#include <cstdint>

namespace pollux::compat {

absl::Status DeferredAhDestroy::Destroy(engine::Worker& worker, verbs::AddressHandle* ah) {
  const Handles named = NamedBySends();
  Sweep(worker, named);
  if (!named.contains(ah)) return worker.DestroyAh(ah);
  waiting_.insert(ah);
  return absl::OkStatus();
}

void DeferredAhDestroy::Sweep(engine::Worker& worker) {
  if (!waiting_.empty()) Sweep(worker, NamedBySends());
}

void DeferredAhDestroy::Sweep(engine::Worker& worker, const Handles& named) {
  std::erase_if(waiting_, [&](verbs::AddressHandle* ah) {
    if (named.contains(ah)) return false;
    // One that is not the worker's any more is nothing to wait for.
    worker.DestroyAh(ah).IgnoreError();
    return true;
  });
}

DeferredAhDestroy::Handles DeferredAhDestroy::NamedBySends() const {
  Handles named;
  for (verbs::QueuePair* qp : senders_) {
    for (uint32_t i = qp->sq_head(); i != qp->sq_tail(); ++i) named.insert(qp->sq(i).ah);
  }
  return named;
}

}  // namespace pollux::compat
