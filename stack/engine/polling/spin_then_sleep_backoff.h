// How a thread waits for what another one gives back soon.
#ifndef POLLUX_STACK_ENGINE_POLLING_SPIN_THEN_SLEEP_BACKOFF_H_
#define POLLUX_STACK_ENGINE_POLLING_SPIN_THEN_SLEEP_BACKOFF_H_

#include <cstdint>

namespace pollux::engine {

// One for each time that something is waited for; between looks at it, Wait(). Who has it runs on
// another CPU as a rule and is done at once: first that is awaited without a system call. Else it
// has lost its CPU, perhaps to who waits: then that is given up, and at last the waiting thread
// sleeps, since to yield is to give way to threads of the same priority only.
class SpinThenSleepBackoff {
 public:
  // No cancellation point.
  void Wait();
  // Whether the last Wait() has slept.
  bool slept() const { return waits_ > kRelaxedWaits + kYields; }

 private:
  // A turn of the loop is shorter than this many looks at a word.
  static constexpr uint32_t kRelaxedWaits = 256;
  // With nobody to give way to a fraction of a millisecond. Else each takes a slice of the CPU or
  // more, and there are only as many as fit in a few slices.
  static constexpr uint32_t kYields = 1000;
  static constexpr uint64_t kYieldingNs = 10'000'000;

  void Yield();

  uint32_t waits_ = 0;  // not counted any further
  uint64_t first_yield_ns_ = 0;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_POLLING_SPIN_THEN_SLEEP_BACKOFF_H_
