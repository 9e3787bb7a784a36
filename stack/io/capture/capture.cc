#include "stack/io/capture/capture.h"

#include <algorithm>

namespace pollux::io {

uint16_t Capture::Receive(rte_mbuf** frames, uint16_t capacity, uint64_t now_ns) {
  const auto burst = std::min<uint16_t>(capacity, CaptureRing::kMaxStaged);
  const uint16_t got = link_->Receive(frames, burst, now_ns);
  for (uint16_t i = 0; i < got; ++i) ring_->Stage(frames[i], pcapng::Direction::kInbound, now_ns);
  if (got > 0) ring_->Publish(got);
  return got;
}

uint16_t Capture::Send(rte_mbuf** frames, uint16_t count, uint64_t now_ns) {
  uint16_t sent = 0;
  while (sent < count) {
    const auto burst = std::min<uint16_t>(count - sent, CaptureRing::kMaxStaged);
    // Before the link may free them.
    for (uint16_t i = 0; i < burst; ++i) {
      ring_->Stage(frames[sent + i], pcapng::Direction::kOutbound, now_ns);
    }
    const uint16_t taken = link_->Send(frames + sent, burst, now_ns);
    ring_->Publish(taken);
    sent += taken;
    if (taken < burst) break;
  }
  return sent;
}

}  // namespace pollux::io
