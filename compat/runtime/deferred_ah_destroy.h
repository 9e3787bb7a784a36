// Address handles that a program has destroyed while queued sends still refer to them.
#ifndef POLLUX_COMPAT_RUNTIME_DEFERRED_AH_DESTROY_H_
#define POLLUX_COMPAT_RUNTIME_DEFERRED_AH_DESTROY_H_

#include <set>
#include <unordered_set>

#include "absl/status/status.h"
#include "stack/engine/loop/worker.h"
#include "stack/verbs/address_handle.h"
#include "stack/verbs/queue_pair.h"

namespace pollux::compat {

// Programs destroy an address handle directly after posting a send with it, because work requests
// of adapters contain a copy. Here the handle is kept until no send refers to it. Used only during
// a ScopedWorkerOwnership.
class DeferredAhDestroy {
 public:
  // Adds a UD queue pair, until it cannot send any more.
  void AddSender(verbs::QueuePair* qp) { senders_.insert(qp); }
  void RemoveSender(verbs::QueuePair* qp) { senders_.erase(qp); }

  // Whether Destroy() was called and the handle is kept only for queued sends. Its `pd` then refers
  // to the worker's protection domain, not to the program's. Once the handle is really destroyed, a
  // new one may have its address.
  bool Waits(verbs::AddressHandle* ah) const { return waiting_.contains(ah); }
  // Destroys a handle now, or in a later Sweep(). `ah` must refer to the worker's own protection
  // domain, not the program's. InvalidArgument if the worker does not own `ah`.
  absl::Status Destroy(engine::Worker& worker, verbs::AddressHandle* ah);
  void Sweep(engine::Worker& worker);

 private:
  using Handles = std::unordered_set<const verbs::AddressHandle*>;

  Handles NamedBySends() const;
  void Sweep(engine::Worker& worker, const Handles& named);

  std::set<verbs::QueuePair*> senders_;
  std::set<verbs::AddressHandle*> waiting_;  // bounded by the number of the worker's handles
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_RUNTIME_DEFERRED_AH_DESTROY_H_
