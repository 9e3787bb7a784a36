// Determines which thread owns a worker.
#ifndef POLLUX_STACK_ENGINE_POLLING_OWNERSHIP_H_
#define POLLUX_STACK_ENGINE_POLLING_OWNERSHIP_H_

#include <pthread.h>

#include <atomic>
#include <cstdint>

namespace pollux::engine {

// A worker and its objects belong to one thread at a time, but a program may call from any thread:
// each call owns the worker while it runs, or for one turn of the loop at a time. If no call runs,
// the polling thread owns it. Acquiring and releasing are one exchange and one store on a word that
// a single-threaded program keeps in its cache; what the owner wrote is visible to the next one.
// Not recursive: while it is held, no function of the program is called. The owner uses DPDK's
// packet caches of one lcore, so that frames are not stranded in the caches of short-lived threads.
class Ownership {
 public:
  // `lcore` must not be used by other threads while this object exists, except by its owner.
  explicit Ownership(unsigned lcore = 0) : lcore_(lcore) {}
  void Acquire() {
    if (held_.exchange(true, std::memory_order_acquire)) AcquireSlowly();
    Enter();
  }
  // Returns false if another thread is the owner.
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
  // May be called on any thread and in signal handlers.
  bool HeldByThisThread() const { return owner_.load(std::memory_order_relaxed) == pthread_self(); }
  // Whether a thread waits for the ownership: a thread that polls for others then gives it up.
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
  unsigned lcore_of_thread_ = 0;     // of the owner's thread, restored by Leave()
  unsigned* lcore_place_ = nullptr;  // the owner's lcore ID: finding it again takes a call
  std::atomic<pthread_t> owner_{};   // 0: not owned
  alignas(64) std::atomic<uint32_t> waiting_{0};
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_POLLING_OWNERSHIP_H_
