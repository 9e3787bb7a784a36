// Whose turn it is to be the worker's one owner.
#ifndef POLLUX_STACK_ENGINE_POLLING_OWNERSHIP_H_
#define POLLUX_STACK_ENGINE_POLLING_OWNERSHIP_H_

#include <pthread.h>

#include <atomic>
#include <cstdint>

namespace pollux::engine {

// A worker and all that it owns belong to one thread at a time, but calls of a program come from
// any: each is the owner while it lasts, or for one turn of the loop at a time, as is the thread
// that polls when no call does. Taking and giving is one exchange and one store on a word that a
// program of one thread keeps in its cache; what the owner wrote is visible to the next one. Not
// recursive: no call is made into a program, and none of the program's own, while it is held.
// Whoever has it uses DPDK's packet caches of one lcore, so that frames do not get stranded in the
// caches of threads that come and go.
class Ownership {
 public:
  // `lcore`: nobody else's, as long as this lives, but of who owns this.
  explicit Ownership(unsigned lcore = 0) : lcore_(lcore) {}
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
  // Whether a thread waits for it: who polls for others then stands back.
  bool Wanted() const { return waiting_.load(std::memory_order_relaxed) != 0; }

 private:
  void AcquireSlowly();
  void Enter();
  void Leave() {
    *lcore_place_ = lcore_of_thread_;
    owner_.store(pthread_t{}, std::memory_order_relaxed);
  }

  alignas(64) std::atomic<bool> held_{false};
  const unsigned lcore_;
  unsigned lcore_of_thread_ = 0;     // of the owner, while it is not the owner
  unsigned* lcore_place_ = nullptr;  // the owner's: finding it again takes a call
  std::atomic<pthread_t> owner_{};   // no thread: none
  alignas(64) std::atomic<uint32_t> waiting_{0};
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_POLLING_OWNERSHIP_H_
