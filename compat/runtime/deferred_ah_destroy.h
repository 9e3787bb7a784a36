// Address handles that a program has destroyed while sends that name them wait.
#ifndef POLLUX_COMPAT_RUNTIME_DEFERRED_AH_DESTROY_H_
#define POLLUX_COMPAT_RUNTIME_DEFERRED_AH_DESTROY_H_

#include <set>
#include <unordered_set>

#include "absl/status/status.h"
#include "stack/engine/loop/worker.h"
#include "stack/verbs/address_handle.h"
#include "stack/verbs/queue_pair.h"

namespace pollux::compat {

// Programs destroy the handle of an answer as soon as that is posted, since the work requests of
// adapters hold a copy of it. Here a handle stays until no send names it. During a
// ScopedWorkerOwnership only.
class DeferredAhDestroy {
 public:
  // A queue pair of datagrams, for as long as it can send.
  void AddSender(verbs::QueuePair* qp) { senders_.insert(qp); }
  void RemoveSender(verbs::QueuePair* qp) { senders_.erase(qp); }

  // Whether Destroy() was called: the domain of such a handle is not the program's any more, and
  // the next handle may be in its place.
  bool Waits(verbs::AddressHandle* ah) const { return waiting_.contains(ah); }
  // At once, or by a Sweep(). `ah` names the worker's own domain, not the program's.
  // InvalidArgument if the worker does not own `ah`.
  absl::Status Destroy(engine::Worker& worker, verbs::AddressHandle* ah);
  void Sweep(engine::Worker& worker);

 private:
  using Handles = std::unordered_set<const verbs::AddressHandle*>;

  Handles NamedBySends() const;
  void Sweep(engine::Worker& worker, const Handles& named);

  std::set<verbs::QueuePair*> senders_;
  std::set<verbs::AddressHandle*> waiting_;  // of the worker's, whose number is bounded
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_RUNTIME_DEFERRED_AH_DESTROY_H_
