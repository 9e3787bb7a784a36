#include "stack/kernel/tap_forwarder.h"

#include <rte_mbuf.h>

#include "stack/kernel/kernel_tap.h"

namespace pollux::kernel {

uint16_t TapForwarder::Receive(rte_mbuf** frames, uint16_t capacity, uint64_t now_ns) {
  const bool to_kernel = PassToKernel(frames, capacity, now_ns);
  const bool from_kernel = PassFromKernel(now_ns);
  moved_ = to_kernel || from_kernel;
  return 0;
}

uint16_t TapForwarder::Send(rte_mbuf** frames, uint16_t count, uint64_t now_ns) {
  return port_->Send(frames, count, now_ns);
}

bool TapForwarder::PassToKernel(rte_mbuf** frames, uint16_t capacity, uint64_t now_ns) {
  const uint16_t count = port_->Receive(frames, capacity, now_ns);
  const uint16_t taken = WriteToTap(tap_, frames, count);
  counters_.to_kernel += taken;
  counters_.to_kernel_dropped += count - taken;
  return count > 0;
}

bool TapForwarder::PassFromKernel(uint64_t now_ns) {
  const uint64_t before = counters_.from_kernel + counters_.from_kernel_over_mtu;
  if (first_waiting_ == waiting_end_) {
    first_waiting_ = 0;
    waiting_end_ = ReadFromTap(tap_, pool_, frame_bytes_, waiting_.data(), kBurst,
                               &counters_.from_kernel_over_mtu);
  }
  if (first_waiting_ < waiting_end_) {
    const uint16_t sent = port_->Send(waiting_.data() + first_waiting_,
                                      static_cast<uint16_t>(waiting_end_ - first_waiting_), now_ns);
    first_waiting_ = static_cast<uint16_t>(first_waiting_ + sent);
    counters_.from_kernel += sent;
  }
  return counters_.from_kernel + counters_.from_kernel_over_mtu > before;
}

void TapForwarder::Clear() {
  rte_pktmbuf_free_bulk(waiting_.data() + first_waiting_, waiting_end_ - first_waiting_);
  first_waiting_ = waiting_end_ = 0;
}

}  // namespace pollux::kernel
