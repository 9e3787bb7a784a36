// No fork between two writes of one change.
#ifndef POLLUX_COMPAT_PROCESS_FORK_GATE_H_
#define POLLUX_COMPAT_PROCESS_FORK_GATE_H_

#include <atomic>
#include <cstdint>
#include <mutex>

namespace pollux::compat {

// A child has the forking thread alone: a mutex that another one held is never given back there,
// and what that one was changing stays half changed. So whoever holds one of these mutexes stands
// within the gate, and a thread that forks closes it and waits until nobody else does. One of a
// process.
class ForkGate {
 public:
  // Any thread, within it already or not. Not before a ScopedWorkerOwnership, which the one that
  // forks has.
  static void Enter();
  static void Leave();

  // By the thread that forks, before fork(2). What has been left half-way for good (a signal
  // handler has interrupted it and does not return) is waited for no longer than `most_ns`.
  static void Close(uint64_t most_ns);
  static void OpenInParent();
  static void OpenInChild();

 private:
  static inline std::atomic<int32_t> inside_{0};  // threads
  static inline std::atomic<bool> closed_{false};
};

// As std::mutex, within the gate. Not across what waits.
class GatedMutex {
 public:
  void lock() {
    ForkGate::Enter();
    mutex_.lock();
  }
  void unlock() {
    mutex_.unlock();
    ForkGate::Leave();
  }

 private:
  std::mutex mutex_;
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_PROCESS_FORK_GATE_H_
