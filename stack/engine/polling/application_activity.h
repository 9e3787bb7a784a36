// What an application's threads report to the polling thread.
#ifndef POLLUX_STACK_ENGINE_POLLING_APPLICATION_ACTIVITY_H_
#define POLLUX_STACK_ENGINE_POLLING_APPLICATION_ACTIVITY_H_

#include <atomic>
#include <cstdint>

namespace pollux::engine {

// No messages are sent: the application's threads write at every call, and the polling thread
// (ProgressThread) reads. All functions except Nap() and Sleep() are thread-safe; HandOver() may be
// called in signal handlers, too.
class ApplicationActivity {
 public:
  // A thread of the application has polled the worker until `now_ns`.
  void Polled(uint64_t now_ns) {
    polled_ns_.store(now_ns, std::memory_order_relaxed);
    if (handed_over_.load(std::memory_order_relaxed)) handed_over_.store(false);
  }
  uint64_t polled_ns() const { return polled_ns_.load(std::memory_order_relaxed); }

  // A completion queue was armed: the thread that armed it is about to sleep, perhaps in a poll(2)
  // that is not seen here. A thread that keeps polling empty completion queues is not about to
  // sleep.
  static constexpr uint32_t kEmptyPollsOfSleeper = 8;
  void Armed() {
    empty_polls_left_.store(kEmptyPollsOfSleeper);
    EndNap();
  }
  void FoundNothing() {
    const uint32_t left = empty_polls_left_.load(std::memory_order_relaxed);
    if (left > 0) empty_polls_left_.store(left - 1, std::memory_order_relaxed);
  }
  // A thread sleeps until the worker's owner wakes it.
  void SleepBegins() {
    sleepers_.fetch_add(1);
    EndNap();
  }
  void SleepEnds() { sleepers_.fetch_sub(1, std::memory_order_relaxed); }
  // The calling thread will wait for the worker in a way that this class cannot see. Valid until a
  // thread polls the worker.
  void HandOver() {
    handed_over_.store(true);
    EndNap();
  }
  void TakeBack() { handed_over_.store(false); }
  // Call EndLongNap() when something is queued for the polling thread that must not be delayed by
  // more than kMaxShortNapNs.
  static constexpr uint64_t kMaxShortNapNs = 100'000;
  void EndLongNap() {
    if (napping_.load(std::memory_order_relaxed) == kLongNap) WakeUp();
  }
  bool ExpectsSleep() const {
    return sleepers_.load() > 0 || empty_polls_left_.load() > 0 || handed_over_.load();
  }

  // The polling thread sleeps for `ns` (less than a second) or until an application thread is about
  // to sleep; if one already is, it does not sleep at all.
  void Nap(uint64_t ns);
  // The same, but it sleeps even if application threads already sleep, until another one is about
  // to sleep. If announced() has changed since `announced` was read, it does not sleep at all.
  void Sleep(uint64_t ns, uint32_t announced);
  // How often a thread was about to sleep. Read it before the turn after which Sleep() is called.
  uint32_t announced() const { return announced_.load(); }

 private:
  // A thread that announces a sleep then checks for a nap, and a thread that announces a nap then
  // checks for sleepers: at least one of them sees the other.
  void EndNap() {
    announced_.fetch_add(1);
    if (napping_.load() != 0) WakeUp();
  }
  void WakeUp();
  void Wait(uint64_t ns, uint32_t nap);
  static uint32_t KindOf(uint64_t ns) { return ns > kMaxShortNapNs ? kLongNap : kShortNap; }

  static constexpr uint32_t kShortNap = 1, kLongNap = 2;

  std::atomic<uint64_t> polled_ns_{0};
  std::atomic<uint32_t> empty_polls_left_{0};
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<bool> handed_over_{false};
  std::atomic<uint32_t> announced_{0};
  std::atomic<uint32_t> napping_{0};  // a futex: 0, kShortNap or kLongNap
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_POLLING_APPLICATION_ACTIVITY_H_
