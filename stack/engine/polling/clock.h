// Real time in nanoseconds, read from the time-stamp counter. Simulations use virtual time instead.
#ifndef POLLUX_STACK_ENGINE_POLLING_CLOCK_H_
#define POLLUX_STACK_ENGINE_POLLING_CLOCK_H_

#include <cstdint>

namespace pollux::engine {

// Copyable and stateless, so all clocks of one process agree. Time 0 is when the counter was 0,
// about the start of the machine.
class Clock {
 public:
  // Uses the rate that EAL has measured. InitEal() must have succeeded.
  Clock();
  // Uses the given rate in cycles per second, which must not be 0.
  explicit Clock(uint64_t hz);

  // Makes no system call.
  uint64_t NowNs() const;
  // Exact to 1 ns in 4 s; monotonic in `cycles`.
  uint64_t ToNs(uint64_t cycles) const {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(cycles) * multiplier_) >> kShift);
  }

 private:
  static constexpr int kShift = 32;
  uint64_t multiplier_;  // ns per cycle, with kShift fraction bits
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_POLLING_CLOCK_H_
