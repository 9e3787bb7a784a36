#include "stack/transport/message/egress.h"

#include <algorithm>

namespace pollux::transport {

Egress::~Egress() {
  if (count_ > 0) rte_pktmbuf_free_bulk(frames_.data(), count_);
}

rte_mbuf* Egress::AllocateFromPool() {
  rte_mbuf* frame = rte_pktmbuf_alloc(pool_);
  if (frame == nullptr) CountNotSent(Drop::kNoBuffer);
  return frame;
}

void Egress::CountNotSent(Drop reason) {
  counters_->Count(reason);
  ++counters_->send_err;
}

void Egress::Flush(uint64_t now_ns) {
  uint16_t sent = 0;
  while (sent < count_) {
    const uint16_t burst = std::min<uint16_t>(kBurst, count_ - sent);
    const uint16_t taken = link_->Send(&frames_[sent], burst, now_ns);
    sent += taken;
    if (taken < burst) break;
  }
  std::copy(frames_.begin() + sent, frames_.begin() + count_, frames_.begin());
  count_ -= sent;
  uint64_t waiting_bytes = 0;
  for (uint16_t i = 0; i < count_; ++i) waiting_bytes += frames_[i]->pkt_len;
  counters_->sent_pkts += sent;
  counters_->sent_bytes += pushed_bytes_ - sent_bytes_ - waiting_bytes;
  sent_bytes_ = pushed_bytes_ - waiting_bytes;
}

}  // namespace pollux::transport
