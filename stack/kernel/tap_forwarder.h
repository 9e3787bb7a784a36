// Passes every frame between a port and a tap, so that a port that only one process can open
// becomes an interface of the kernel, which programs share.
#ifndef POLLUX_STACK_KERNEL_TAP_FORWARDER_H_
#define POLLUX_STACK_KERNEL_TAP_FORWARDER_H_

#include <array>
#include <cstdint>

#include "stack/io/link/link.h"

struct rte_mempool;

namespace pollux::kernel {

struct TapForwarderCounters {
  uint64_t to_kernel = 0;
  // Its interface was down, or the frame was longer than a buffer of the port.
  uint64_t to_kernel_dropped = 0;
  uint64_t from_kernel = 0;
  uint64_t from_kernel_over_mtu = 0;  // dropped: the MTU of its interface exceeds the port's
};

// A layer above a port, from which the worker receives nothing. It is owned by that worker, on
// whose core it also reads and writes the tap: with a thread in between, as in ExceptionPath,
// packets would wait for that thread to wake up.
class TapForwarder : public io::Link {
 public:
  // `port`, the descriptor `tap` (KernelTap::fd) and `pool`, for frames from the kernel, are not
  // owned and must outlive this object. The port sends frames of up to `frame_bytes` bytes; the
  // buffers of the pool must be as large.
  TapForwarder(io::Link* port, int tap, rte_mempool* pool, uint16_t frame_bytes)
      : port_(port), tap_(tap), pool_(pool), frame_bytes_(frame_bytes) {}
  ~TapForwarder() override { Clear(); }
  TapForwarder(const TapForwarder&) = delete;
  TapForwarder& operator=(const TapForwarder&) = delete;

  // Passes a burst in each direction and returns 0. `frames` is used meanwhile.
  uint16_t Receive(rte_mbuf** frames, uint16_t capacity, uint64_t now_ns) override;
  uint16_t Send(rte_mbuf** frames, uint16_t count, uint64_t now_ns) override;
  // Whether the last Receive() passed or dropped any frame.
  bool moved() const { return moved_; }

  // Frees every frame kept here. Call it at shutdown, before the packet pools are destroyed.
  void Clear();
  const TapForwarderCounters& counters() const { return counters_; }

 private:
  static constexpr uint16_t kBurst = 32;

  bool PassToKernel(rte_mbuf** frames, uint16_t capacity, uint64_t now_ns);
  bool PassFromKernel(uint64_t now_ns);

  io::Link* port_;
  int tap_;
  rte_mempool* pool_;
  uint16_t frame_bytes_;
  bool moved_ = false;
  // Those that the port has not taken yet. No more are read until it has: the kernel's queue keeps
  // them, and drops and counts what it has no room for.
  uint16_t first_waiting_ = 0;
  uint16_t waiting_end_ = 0;
  std::array<rte_mbuf*, kBurst> waiting_;
  TapForwarderCounters counters_;
};

}  // namespace pollux::kernel

#endif  // POLLUX_STACK_KERNEL_TAP_FORWARDER_H_
