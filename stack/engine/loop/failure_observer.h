// Who is told of queue pairs that fail.
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

// Told of each queue pair that has entered IBV_QPS_ERR for an error of the transport's, before
// anyone polls its completions; `diagnostics` says what it was. On the worker's core, between polls
// of the packet path.
class FailureObserver {
 public:
  virtual ~FailureObserver() = default;
  virtual void OnQpFailure(verbs::QueuePair& qp, const transport::QpDiagnostics& diagnostics) = 0;
};

// The failures of one turn of the loop, and the observers of one worker.
class FailureList {
 public:
  // Of more failures than this in one turn the rest is not told of.
  static constexpr uint32_t kMax = 32;

  void AddObserver(std::weak_ptr<FailureObserver> observer);
  uint32_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  void Add(Qpn qpn) {
    if (count_ < kMax) qpns_[count_++] = qpn;
  }
  // Tells every observer of each, as long as it exists, and forgets them.
  [[gnu::noinline]] void Deliver(QueuePairTable& queue_pairs);

 private:
  uint32_t count_ = 0;
  std::array<Qpn, kMax> qpns_{};
  std::vector<std::weak_ptr<FailureObserver>> observers_;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_LOOP_FAILURE_OBSERVER_H_
