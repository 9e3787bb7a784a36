// Waiting, in tests, for what another thread, another process or the kernel does.
#ifndef POLLUX_STACK_BASE_EVENTUALLY_FOR_TEST_H_
#define POLLUX_STACK_BASE_EVENTUALLY_FOR_TEST_H_

#include <chrono>
#include <thread>

namespace pollux {

// A guard against hanging, not an expectation: a machine may be slow, or have much else to do.
inline constexpr std::chrono::seconds kHangGuard{100};

// Whether `holds()` is true in the end. Between two looks this thread sleeps.
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
