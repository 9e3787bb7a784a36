#include "cm/connection/relisten_grace_queue.h"

#include <rdma/rdma_cma.h>

#include <algorithm>
#include <utility>

namespace pollux::cm {

RelistenGraceQueue::~RelistenGraceQueue() {
  Forget([](const Ended&) { return true; });
}

void RelistenGraceQueue::ListenerEnded(uint16_t port, uint64_t now_ns) {
  if (grace_ns_ == 0) return;
  Ended last{.port = port, .at_ns = now_ns, .held = {}};
  if (claims_ != nullptr) {
    for (const rdma_port_space space : {RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB}) {
      const uint64_t service = ServiceId{space, port}.ToWire();
      if (claims_->HoldService(service).ok()) last.held.push_back(service);
    }
  }
  Forget([port](const Ended& ended) { return ended.port == port; });
  if (ended_.size() == kMaxEnded) {
    Forget([oldest = ended_.front().port](const Ended& ended) { return ended.port == oldest; });
  }
  ended_.push_back(std::move(last));
}

uint64_t RelistenGraceQueue::ForgetDue(uint64_t now_ns) {
  Forget([&](const Ended& ended) { return now_ns >= ended.at_ns + 2 * grace_ns_; });
  return ended_.empty() ? kNever : ended_.front().at_ns + 2 * grace_ns_;
}

void RelistenGraceQueue::Forget(absl::FunctionRef<bool(const Ended& ended)> forgets) {
  std::erase_if(ended_, [&](const Ended& ended) {
    if (!forgets(ended)) return false;
    for (const uint64_t service : ended.held) claims_->ReleaseHold(service);
    return true;
  });
}

bool RelistenGraceQueue::Keep(const HeldRequest& request, uint64_t now_ns) {
  const bool ended_just_now = std::ranges::any_of(ended_, [&](const Ended& ended) {
    return ended.port == request.service.port && now_ns < ended.at_ns + grace_ns_;
  });
  if (!ended_just_now) return false;
  const bool again = std::ranges::any_of(waiting_, [&](const Waiting& waiting) {
    return waiting.request.from == request.from &&
           waiting.request.transaction_id == request.transaction_id;
  });
  if (again) return true;
  if (waiting_.size() == kMaxRequests) return false;
  waiting_.push_back({request, now_ns + grace_ns_});
  return true;
}

std::vector<HeldRequest> RelistenGraceQueue::TakeDue(
    uint64_t now_ns, absl::FunctionRef<bool(const HeldRequest& request)> has_listener) {
  std::vector<HeldRequest> due;
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    if (now_ns < waiting.until_ns && !has_listener(waiting.request)) return false;
    const uint64_t service = waiting.request.service.ToWire();
    if (claims_ == nullptr || !claims_->OtherTakesService(service)) due.push_back(waiting.request);
    return true;
  });
  return due;
}

}  // namespace pollux::cm
