#include "cm/connection/relisten_grace_queue.h"

#include <algorithm>

namespace pollux::cm {

void RelistenGraceQueue::ListenerEnded(uint16_t port, uint64_t now_ns) {
  if (grace_ns_ == 0) return;
  std::erase_if(ended_, [port](const Ended& ended) { return ended.port == port; });
  if (ended_.size() == kMaxEnded) ended_.erase(ended_.begin());
  ended_.push_back({port, now_ns});
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
    due.push_back(waiting.request);
    return true;
  });
  return due;
}

}  // namespace pollux::cm
