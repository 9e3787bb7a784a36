// Lets a thread wait for something that another thread will release soon.
#ifndef POLLUX_STACK_ENGINE_POLLING_SPIN_THEN_SLEEP_BACKOFF_H_
#define POLLUX_STACK_ENGINE_POLLING_SPIN_THEN_SLEEP_BACKOFF_H_

#include <cstdint>

namespace pollux::engine {

// Use one object per wait, and call Wait() between checks. The owner usually runs on another CPU
// and is done at once: the first waits make no system call. Otherwise the owner has lost its CPU,
// perhaps to the waiting thread: further waits yield the CPU, and finally the thread sleeps, since
// a yield gives the CPU only to threads of the same priority.
class SpinThenSleepBackoff {
 public:
  // Not a cancellation point.
  void Wait();
  // Whether the last Wait() slept.
  bool slept() const { return waits_ > kRelaxedWaits + kYields; }

 private:
  // A turn of the loop takes less time than this many checks of a word.
  static constexpr uint32_t kRelaxedWaits = 256;
  // If no other thread wants the CPU, these take a fraction of a millisecond in all. Otherwise each
  // takes a time slice or more, and kYieldingNs limits them to a few slices.
  static constexpr uint32_t kYields = 1000;
  static constexpr uint64_t kYieldingNs = 10'000'000;

  void Yield();

  uint32_t waits_ = 0;  // counted up to the first sleep
  uint64_t first_yield_ns_ = 0;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_POLLING_SPIN_THEN_SLEEP_BACKOFF_H_
