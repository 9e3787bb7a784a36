// Outgoing frames of one worker on one port, gathered into bursts.
#ifndef POLLUX_STACK_TRANSPORT_MESSAGE_EGRESS_H_
#define POLLUX_STACK_TRANSPORT_MESSAGE_EGRESS_H_

#include <rte_mbuf.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "stack/io/link/link.h"
#include "stack/io/link/mbuf_cache.h"
#include "stack/transport/diagnostics/counters.h"

namespace pollux::transport {

// Owned by one worker. Frames that the link does not take stay here and go first at the next
// flush; producers look at room() before they build.
class Egress {
 public:
  static constexpr uint16_t kBurst = 32;     // frames handed to the link at once
  static constexpr uint16_t kCapacity = 64;  // a burst, and one more behind a link that is full

  // None is owned; all outlive this. The buffers of `pool` are its own (no external ones).
  Egress(io::Link* link, rte_mempool* pool, Counters* counters)
      : link_(link),
        pool_(pool),
        counters_(counters),
        data_offset_(sizeof(rte_mbuf) + rte_pktmbuf_priv_size(pool) + RTE_PKTMBUF_HEADROOM),
        frame_room_(rte_pktmbuf_data_room_size(pool) - RTE_PKTMBUF_HEADROOM) {}
  ~Egress();
  Egress(const Egress&) = delete;
  Egress& operator=(const Egress&) = delete;

  uint16_t room() const { return kCapacity - count_; }
  bool empty() const { return count_ == 0; }
  // Bytes of the longest frame that Allocate() has room for.
  uint32_t frame_room() const { return frame_room_; }
  // Of all frames that Push() has taken.
  uint64_t pushed_bytes() const { return pushed_bytes_; }
  // A queue pair's turn, which is over when so many bytes more were pushed; the last packet may go
  // beyond. Before the first turn none is over.
  void BeginTurn(uint32_t bytes) { turn_end_bytes_ = pushed_bytes_ + bytes; }
  bool TurnIsOver() const { return pushed_bytes_ >= turn_end_bytes_; }
  // An empty mbuf of one segment with DPDK's headroom, or null (counted) when the pool is dry.
  rte_mbuf* Allocate() {
    const void* upcoming;
    rte_mbuf* frame = io::TakeCachedMbuf(pool_, kFetchAhead, &upcoming);
    if (frame == nullptr) [[unlikely]]
      return AllocateFromPool();
    FetchToWrite(upcoming);
    // As rte_pktmbuf_reset() but for the second line: what lies in a pool has one segment, and
    // offloads are read only where a flag says so.
    frame->data_off = RTE_PKTMBUF_HEADROOM;
    frame->port = RTE_MBUF_PORT_INVALID;
    frame->ol_flags = 0;
    frame->packet_type = 0;
    frame->pkt_len = 0;
    frame->data_len = 0;
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
  // Mbufs between the one that is taken and the one that is fetched: as far as building them hides
  // the way from another core's cache.
  static constexpr uint32_t kFetchAhead = 4;
  static constexpr size_t kCacheLine = 64;

  // Where frames go by pointer, the core that has read one last holds its lines. Its descriptor and
  // the first two lines of data, which is all of a short packet.
  void FetchToWrite(const void* mbuf) const {
    const auto* at = static_cast<const char*>(mbuf);
    // By name, since the compiler makes it of a prefetch to write only for processors that are
    // sure to have it. The others take it for no operation.
    asm volatile("prefetchw %0" : : "m"(*at));
    asm volatile("prefetchw %0" : : "m"(at[data_offset_]));
    asm volatile("prefetchw %0" : : "m"(at[data_offset_ + kCacheLine]));
  }
  void FlushSeveral(uint64_t now_ns);
  rte_mbuf* AllocateFromPool();
  void CountNotSent(Drop reason);

  io::Link* link_;
  rte_mempool* pool_;
  Counters* counters_;
  size_t data_offset_;  // of the first byte of a frame in its mbuf
  uint32_t frame_room_;
  uint16_t count_ = 0;
  uint64_t pushed_bytes_ = 0;
  uint64_t turn_end_bytes_ = std::numeric_limits<uint64_t>::max();
  std::array<rte_mbuf*, kCapacity> frames_;
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_MESSAGE_EGRESS_H_
