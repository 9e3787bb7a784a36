#include "stack/engine/loop/failure_observer.h"

#include <utility>

namespace pollux::engine {

void FailureList::AddObserver(std::weak_ptr<FailureObserver> observer) {
  std::erase_if(observers_, [](const auto& weak) { return weak.expired(); });
  observers_.push_back(std::move(observer));
}

void FailureList::Deliver(QueuePairTable& queue_pairs) {
  const uint32_t count = std::exchange(count_, 0);
  for (uint32_t i = 0; i < count; ++i) {
    for (const auto& weak : observers_) {
      const std::shared_ptr<FailureObserver> observer = weak.lock();
      if (observer == nullptr) continue;
      // The one before may have destroyed it.
      transport::Endpoint* const endpoint = queue_pairs.FindEndpoint(qpns_[i]);
      if (endpoint == nullptr) break;
      observer->OnQpFailure(endpoint->qp, endpoint->diagnostics());
    }
  }
}

}  // namespace pollux::engine
