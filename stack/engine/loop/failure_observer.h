// Observers of queue pairs that fail.
#ifndef POLLUX_STACK_ENGINE_LOOP_FAILURE_OBSERVER_H_
#define POLLUX_STACK_ENGINE_LOOP_FAILURE_OBSERVER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "stack/base/types.h"
#include "stack/engine/objects/queue_pair_table.h"
#include "stack/transport/diagnostics/qp_diagnostics.h"
#include "stack/verbs/queue_pair.h"

namespace pollux::engine {

// Notified of each queue pair that has entered IBV_QPS_ERR because of an error in the transport,
// before its completions are polled; `diagnostics` contains the cause. Called on the worker's core,
// between polls of the packet path.
class FailureObserver {
 public:
  virtual ~FailureObserver() = default;
  virtual void OnQpFailure(verbs::QueuePair& qp, const transport::QpDiagnostics& diagnostics) = 0;
};

// The failures of one turn of the loop, and the observers of one worker.
class FailureList {
 public:
  // If more queue pairs fail in one turn of the loop, the others are not reported.
  static constexpr uint32_t kMax = 32;

  void AddObserver(std::weak_ptr<FailureObserver> observer);
  uint32_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  void Add(Qpn qpn) {
    if (count_ < kMax) qpns_[count_++] = qpn;
  }
  // Reports each failure to every observer that still exists, and clears the list.
  [[gnu::noinline]] void Deliver(QueuePairTable& queue_pairs);

 private:
  uint32_t count_ = 0;
  std::array<Qpn, kMax> qpns_{};
  std::vector<std::weak_ptr<FailureObserver>> observers_;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_LOOP_FAILURE_OBSERVER_H_
