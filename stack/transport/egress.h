// Outgoing frames of one worker on one port, gathered into bursts.
#ifndef POLLUX_STACK_TRANSPORT_EGRESS_H_
#define POLLUX_STACK_TRANSPORT_EGRESS_H_

#include <rte_mbuf.h>

#include <array>
#include <cstdint>

#include "stack/transport/counters.h"
#include "stack/transport/link.h"

namespace pollux::transport {

// Owned by one worker. Frames that the link does not take stay here and go first at the next
// flush; producers look at room() before they build.
class Egress {
 public:
  static constexpr uint16_t kBurst = 32;     // frames handed to the link at once
  static constexpr uint16_t kCapacity = 64;  // a burst, and one more behind a link that is full

  // None is owned; all outlive this.
  Egress(Link* link, rte_mempool* pool, Counters* counters)
      : link_(link), pool_(pool), counters_(counters) {}
  ~Egress();
  Egress(const Egress&) = delete;
  Egress& operator=(const Egress&) = delete;

  uint16_t room() const { return kCapacity - count_; }
  // Of all frames that Push() has taken.
  uint64_t pushed_bytes() const { return pushed_bytes_; }
  // An empty mbuf with DPDK's headroom, or null (counted) when the pool is dry.
  rte_mbuf* Allocate() {
    rte_mbuf* frame = rte_pktmbuf_alloc(pool_);
    if (frame == nullptr) [[unlikely]]
      CountNotSent(Drop::kNoBuffer);
    return frame;
  }
  // Takes over `frame`. Without room it is dropped and counted.
  void Push(rte_mbuf* frame, uint64_t now_ns) {
    if (count_ == kCapacity) [[unlikely]] {
      CountNotSent(Drop::kEgressFull);
      rte_pktmbuf_free(frame);
      return;
    }
    pushed_bytes_ += frame->pkt_len;
    frames_[count_++] = frame;
    if (count_ % kBurst == 0) Flush(now_ns);
  }
  void Flush(uint64_t now_ns);

 private:
  void CountNotSent(Drop reason);

  Link* link_;
  rte_mempool* pool_;
  Counters* counters_;
  uint16_t count_ = 0;
  uint64_t pushed_bytes_ = 0;
  std::array<rte_mbuf*, kCapacity> frames_;
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_EGRESS_H_
