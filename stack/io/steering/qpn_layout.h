// The layout of a queue pair number's 24 bits, which identify its owner without shared state.
#ifndef POLLUX_STACK_IO_STEERING_QPN_LAYOUT_H_
#define POLLUX_STACK_IO_STEERING_QPN_LAYOUT_H_

#include <cstdint>

#include "stack/base/types.h"

namespace pollux::io {

// From the most significant bit: worker, generation (random at every creation), index. All workers
// of a device use one layout, which is chosen at start-up.
struct QpnLayout {
  uint8_t worker_bits = 4;  // 16 workers
  uint8_t index_bits = 14;  // 16,384 queue pairs per worker

  constexpr uint8_t generation_bits() const { return 24 - worker_bits - index_bits; }
  constexpr uint32_t worker(Qpn qpn) const { return qpn.value >> (24 - worker_bits); }
  constexpr uint32_t index(Qpn qpn) const { return qpn.value & ((1u << index_bits) - 1); }
  constexpr Qpn Make(uint32_t worker, uint32_t generation, uint32_t index) const {
    return Qpn{(worker << (24 - worker_bits)) |
               ((generation & ((1u << generation_bits()) - 1)) << index_bits) | index};
  }
};

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_STEERING_QPN_LAYOUT_H_
