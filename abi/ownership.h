// Whose turn it is to be the worker's one owner.
#ifndef POLLUX_ABI_OWNERSHIP_H_
#define POLLUX_ABI_OWNERSHIP_H_

#include <pthread.h>

#include <atomic>
#include <cstdint>

namespace pollux::abi {

// A worker and all that it owns belong to one thread at a time, but verbs calls come from any: each
// call is the owner while it lasts, and the progress thread for one turn of the loop at a time.
// Taking and giving is one exchange and one store on a word that a program of one thread keeps in
// its cache; what the owner wrote is visible to the next one. Not recursive: no call is made into a
// program, and none of the program's own, while it is held. Whoever has it uses DPDK's packet
// caches of lcore 0, so that frames do not get stranded in the caches of threads that come and go.
class Ownership {
 public:
  void Acquire() {
    if (held_.exchange(true, std::memory_order_acquire)) AcquireSlowly();
    Enter();
  }
  // False when another thread is the owner.
  bool TryAcquire() {
    if (held_.load(std::memory_order_relaxed) || held_.exchange(true, std::memory_order_acquire)) {
      return false;
    }
    Enter();
    return true;
  }
  void Release() {
    Leave();
    held_.store(false, std::memory_order_release);
  }
  // Any thread, in a signal handler too.
  bool HeldByThisThread() const { return owner_.load(std::memory_order_relaxed) == pthread_self(); }
  // Whether a thread waits for it: the progress thread then stands back.
  bool Wanted() const { return waiting_.load(std::memory_order_relaxed) != 0; }

 private:
  void AcquireSlowly();
  void Enter();
  void Leave();

  alignas(64) std::atomic<bool> held_{false};
  unsigned lcore_of_thread_ = 0;    // of the owner, while it is not the owner
  std::atomic<pthread_t> owner_{};  // no thread: none
  alignas(64) std::atomic<uint32_t> waiting_{0};
};

}  // namespace pollux::abi

#endif  // POLLUX_ABI_OWNERSHIP_H_
