// Prevents fork(2) while another thread changes shared data.
#ifndef POLLUX_COMPAT_PROCESS_FORK_GATE_H_
#define POLLUX_COMPAT_PROCESS_FORK_GATE_H_

#include <atomic>
#include <cstdint>
#include <mutex>

namespace pollux::compat {

// A child has only the forking thread: a mutex that another thread held would stay locked there,
// and the data that it protects might be half changed. A thread that holds a GatedMutex is
// therefore inside the gate, and a forking thread closes the gate and waits until no other thread
// is inside. There is one gate per process.
class ForkGate {
 public:
  // Any thread; calls may be nested. A thread must not acquire a ScopedWorkerOwnership inside the
  // gate, because the forking thread holds that.
  static void Enter();
  static void Leave();

  // Called by the forking thread before fork(2). Waits at most `most_ns`, because a thread that was
  // interrupted by a signal handler which does not return never leaves the gate.
  static void Close(uint64_t most_ns);
  static void OpenInParent();
  static void OpenInChild();

 private:
  static inline std::atomic<int32_t> inside_{0};  // number of threads
  static inline std::atomic<bool> closed_{false};
};

// A std::mutex whose holder is inside the gate. It must not be held while the thread waits for
// something.
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
