// The time of real runs: nanoseconds by the time-stamp counter. Simulation has its own.
#ifndef POLLUX_STACK_ENGINE_POLLING_CLOCK_H_
#define POLLUX_STACK_ENGINE_POLLING_CLOCK_H_

#include <cstdint>

namespace pollux::engine {

// Copyable and without state, so that all clocks of one process tell one time. The zero is the
// counter's (about the machine's start).
class Clock {
 public:
  // At the rate that EAL has measured; EAL must be initialised (eal.h).
  Clock();
  // At a rate given in cycles a second, not 0.
  explicit Clock(uint64_t hz);

  // Makes no system call.
  uint64_t NowNs() const;
  // Exact to 1 ns in 4 s; monotonic in `cycles`.
  uint64_t ToNs(uint64_t cycles) const {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(cycles) * multiplier_) >> kShift);
  }

 private:
  static constexpr int kShift = 32;
  uint64_t multiplier_;  // ns a cycle, kShift fraction bits
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_POLLING_CLOCK_H_
