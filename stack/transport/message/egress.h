// Collects the outgoing frames of one worker on one port into bursts.
#ifndef POLLUX_STACK_TRANSPORT_MESSAGE_EGRESS_H_
#define POLLUX_STACK_TRANSPORT_MESSAGE_EGRESS_H_

#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "stack/io/link/link.h"
#include "stack/io/link/mbuf_cache.h"
#include "stack/transport/diagnostics/counters.h"

namespace pollux::transport {

// Owned by one worker. Frames that the link does not accept stay here and are sent first at the
// next flush; producers check room() before they build a frame.
class Egress {
 public:
  static constexpr uint16_t kBurst = 32;     // frames passed to the link at once
  static constexpr uint16_t kCapacity = 64;  // a burst, and another while the link is full

  // None is owned; all must outlive this object. The buffers of `pool` are its own (none external).
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
  // The length in bytes of the longest frame for which Allocate() has room.
  uint32_t frame_room() const { return frame_room_; }
  // The bytes of all frames passed to Push() or Append().
  uint64_t pushed_bytes() const { return pushed_bytes_; }
  // Begins a queue pair's turn to send, which is over once `bytes` more bytes have been pushed; the
  // last packet may exceed that. Before the first turn TurnIsOver() is false.
  void BeginTurn(uint32_t bytes) { turn_end_bytes_ = pushed_bytes_ + bytes; }
  bool TurnIsOver() const { return pushed_bytes_ >= turn_end_bytes_; }
  // How many more bytes may be pushed in this turn.
  uint64_t turn_bytes() const { return TurnIsOver() ? 0 : turn_end_bytes_ - pushed_bytes_; }
  // Returns an empty mbuf of one segment with DPDK's headroom, or null (counted) if the pool is
  // empty.
  rte_mbuf* Allocate() {
    const void* upcoming;
    rte_mbuf* frame = io::TakeCachedMbuf(pool_, kFetchAhead, &upcoming);
    if (frame == nullptr) [[unlikely]]
      return AllocateFromPool();
    FetchToWrite(upcoming);
    Reset(frame, 0);
    return frame;
  }
  // Takes over `frame`. If there is no room it is dropped and counted.
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
  // As Flush(), at the end of a worker's turn, when most often a single message waits. The egress
  // must not be empty.
  [[gnu::always_inline]] void FlushAtEndOfTurn(uint64_t now_ns) {
    if (count_ != 1) return Flush(now_ns);
    if (link_->Send(frames_.data(), 1, now_ns) == 0) return;
    ++counters_->sent_pkts;
    counters_->sent_bytes += pushed_bytes_ - sent_bytes_;
    sent_bytes_ = pushed_bytes_;
    count_ = 0;
  }

  // For a caller that builds several frames at a time. It takes at most burst_room() mbufs from
  // Mbufs(), calls Reset() for each, and FetchToWrite() for the one kFetchAhead behind it, writes
  // their addresses to places(), and calls Append().
  static constexpr uint32_t kFetchAhead = 4;
  // The room, but not beyond the end of the current burst.
  uint16_t burst_room() const {
    return std::min<uint16_t>(kBurst - count_ % kBurst, kCapacity - count_);
  }
  io::CachedMbufs Mbufs(uint32_t wanted) const { return {pool_, wanted, kFetchAhead}; }
  rte_mbuf** places() { return frames_.data() + count_; }
  // Takes over `count` frames, at least one, of `bytes` bytes in all.
  void Append(uint16_t count, uint64_t bytes, uint64_t now_ns) {
    pushed_bytes_ += bytes;
    count_ += count;
    if (count_ % kBurst == 0) Flush(now_ns);
  }
  // Makes an mbuf of a pool an empty frame, or one of `bytes` bytes. As rte_pktmbuf_reset(),
  // without writing the second cache line: an mbuf in a pool has one segment, and offload fields
  // are read only if a flag is set.
  static void Reset(rte_mbuf* frame, uint32_t bytes) {
    frame->data_off = RTE_PKTMBUF_HEADROOM;
    frame->port = RTE_MBUF_PORT_INVALID;
    frame->ol_flags = 0;
    frame->packet_type = 0;
    frame->pkt_len = bytes;
    frame->data_len = static_cast<uint16_t>(bytes);
  }
  // If frames are passed by pointer, the core that read one last holds its cache lines. Prefetches
  // the mbuf and the first two lines of its data, which hold all of a short packet. Call it
  // kFetchAhead packets before the mbuf is used: the time in which those are built hides the
  // latency of the other core's cache.
  void FetchToWrite(const void* mbuf) const {
    const auto* at = static_cast<const char*>(mbuf);
    // In assembly, because the compiler emits prefetchw only for processors that are known to
    // support it. On the others it is a no-op.
    asm volatile("prefetchw %0" : : "m"(*at));
    asm volatile("prefetchw %0" : : "m"(at[data_offset_]));
    asm volatile("prefetchw %0" : : "m"(at[data_offset_ + kCacheLine]));
  }

 private:
  static constexpr size_t kCacheLine = 64;

  rte_mbuf* AllocateFromPool();
  void CountNotSent(Drop reason);

  io::Link* link_;
  rte_mempool* pool_;
  Counters* counters_;
  size_t data_offset_;  // of a frame's first byte in its mbuf
  uint32_t frame_room_;
  uint16_t count_ = 0;
  uint64_t pushed_bytes_ = 0;
  uint64_t sent_bytes_ = 0;  // of those, what the link has accepted
  uint64_t turn_end_bytes_ = std::numeric_limits<uint64_t>::max();
  std::array<rte_mbuf*, kCapacity> frames_;
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_MESSAGE_EGRESS_H_
