// What a port sends to itself: it comes back as if from the wire, which never sees it.
#ifndef POLLUX_STACK_IO_LINK_LOOPBACK_H_
#define POLLUX_STACK_IO_LINK_LOOPBACK_H_

#include <array>
#include <cstdint>

#include "stack/base/types.h"
#include "stack/io/link/link.h"

struct rte_mempool;

namespace pollux::io {

struct LoopbackCounters {
  uint64_t passed = 0;
  uint64_t no_buffer = 0;  // lost: the pool was dry, or the frame longer than its buffers
};

// Frames to the port's own MAC address, as RDMA devices loop back what a queue pair sends to
// another of the same port; groups are not looped back. Right above a port, beneath capture and
// impairment. Owned by the worker that owns the link beneath. Takes no heap after construction.
class Loopback : public Link {
 public:
  static constexpr uint16_t kCapacity = 256;  // as a queue of a port's; when full, senders wait

  // None is owned, all outlive this: `mac` is the port's, which may change; `pool` that of received
  // frames, since what comes back is a copy in one piece.
  Loopback(Link* link, const MacAddress* mac, rte_mempool* pool)
      : link_(link), mac_(mac), pool_(pool) {}
  ~Loopback() override { Clear(); }
  Loopback(const Loopback&) = delete;
  Loopback& operator=(const Loopback&) = delete;

  uint16_t Receive(rte_mbuf** frames, uint16_t capacity, uint64_t now_ns) override;
  uint16_t Send(rte_mbuf** frames, uint16_t count, uint64_t now_ns) override;

  // Frees every frame kept here. For the end, before the pools go.
  void Clear();
  const LoopbackCounters& counters() const { return counters_; }

 private:
  uint16_t ReceiveLooped(rte_mbuf** frames, uint16_t capacity, uint64_t now_ns);
  uint16_t SendMixed(rte_mbuf** frames, uint16_t count, uint64_t now_ns);
  bool IsOwn(const rte_mbuf* frame) const;
  // False when the queue is full; takes over `frame` otherwise.
  bool TurnBack(rte_mbuf* frame);

  Link* link_;
  const MacAddress* mac_;
  rte_mempool* pool_;
  LoopbackCounters counters_;
  uint16_t head_ = 0;
  uint16_t count_ = 0;
  std::array<rte_mbuf*, kCapacity> queue_;
};

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_LINK_LOOPBACK_H_
