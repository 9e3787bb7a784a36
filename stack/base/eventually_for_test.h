// Waits, in tests, for events in another thread, another process or the kernel.
#ifndef POLLUX_STACK_BASE_EVENTUALLY_FOR_TEST_H_
#define POLLUX_STACK_BASE_EVENTUALLY_FOR_TEST_H_

#include <chrono>
#include <thread>

namespace pollux {

// A guard against hanging, not an expected duration: the machine may be slow or busy.
inline constexpr std::chrono::seconds kHangGuard{100};

// Returns true once `holds()` returns true, and false if it never did for kHangGuard. Calls it once
// per millisecond.
template <class Condition>
bool Eventually(Condition holds) {
  const auto give_up = std::chrono::steady_clock::now() + kHangGuard;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace pollux

#endif  // POLLUX_STACK_BASE_EVENTUALLY_FOR_TEST_H_
