// The layout of a queue pair number's 24 bits, which identify its owner without shared state.
#ifndef POLLUX_STACK_BASE_QPN_LAYOUT_H_
#define POLLUX_STACK_BASE_QPN_LAYOUT_H_

#include <cstdint>

#include "stack/base/types.h"

namespace pollux {

// From the most significant bit: process (if several share an interface), worker, generation
// (random at every creation), index. All workers of a device use one layout, which is chosen at
// start-up.
struct QpnLayout {
  uint8_t worker_bits = 4;  // 16 workers
  uint8_t index_bits = 14;  // 16,384 queue pairs per worker
  uint8_t process_bits = 0;
  uint32_t process = 0;  // below 2^process_bits

  constexpr uint8_t generation_bits() const { return 24 - process_bits - worker_bits - index_bits; }
  // Whether the number is one of this process.
  constexpr bool Holds(Qpn qpn) const { return qpn.value >> (24 - process_bits) == process; }
  // Of a number for which Holds() is true.
  constexpr uint32_t worker(Qpn qpn) const {
    return (qpn.value >> (24 - process_bits - worker_bits)) & ((1u << worker_bits) - 1);
  }
  constexpr uint32_t index(Qpn qpn) const { return qpn.value & ((1u << index_bits) - 1); }
  constexpr Qpn Make(uint32_t worker, uint32_t generation, uint32_t index) const {
    return Qpn{(process << (24 - process_bits)) | (worker << (24 - process_bits - worker_bits)) |
               ((generation & ((1u << generation_bits()) - 1)) << index_bits) | index};
  }
};

}  // namespace pollux

#endif  // POLLUX_STACK_BASE_QPN_LAYOUT_H_
