// Whether a thread sleeps, for tests of sleeping threads.
#ifndef POLLUX_STACK_BASE_THREAD_STATE_FOR_TEST_H_
#define POLLUX_STACK_BASE_THREAD_STATE_FOR_TEST_H_

#include <sys/types.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace pollux {

// Whether this thread of the process is in interruptible sleep.
inline bool IsAsleep(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  const std::string line(std::istreambuf_iterator<char>(file), {});
  // "TID (NAME) STATE ..."
  const size_t name_end = line.rfind(')');
  return name_end != line.npos && line.compare(name_end, 3, ") S") == 0;
}

// Waits until `thread` is asleep. The thread stores its ID there, and must sleep only where the
// test expects it.
inline void AwaitSleepOf(const std::atomic<pid_t>& thread) {
  while (thread == 0 || !IsAsleep(thread)) std::this_thread::yield();
}

}  // namespace pollux

#endif  // POLLUX_STACK_BASE_THREAD_STATE_FOR_TEST_H_
