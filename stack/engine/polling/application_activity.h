// What an application's threads tell the thread that polls beside them.
#ifndef POLLUX_STACK_ENGINE_POLLING_APPLICATION_ACTIVITY_H_
#define POLLUX_STACK_ENGINE_POLLING_APPLICATION_ACTIVITY_H_

#include <atomic>
#include <cstdint>

namespace pollux::engine {

// Without a message: they write at every call, the polling thread (ProgressThread) looks. All
// functions but Nap() and Sleep() from any thread; HandOver() in a signal handler too.
class ApplicationActivity {
 public:
  // A thread of the application has polled the worker, until then.
  void Polled(uint64_t now_ns) {
    polled_ns_.store(now_ns, std::memory_order_relaxed);
    if (handed_over_.load(std::memory_order_relaxed)) handed_over_.store(false);
  }
  uint64_t polled_ns() const { return polled_ns_.load(std::memory_order_relaxed); }

  // A completion queue was armed: whoever does that is about to sleep, perhaps in a poll(2) that
  // nobody here sees. Whoever keeps on finding nothing in completion queues is not.
  static constexpr uint32_t kEmptyPollsOfSleeper = 8;
  void Armed() {
    empty_polls_left_.store(kEmptyPollsOfSleeper);
    EndNap();
  }
  void FoundNothing() {
    const uint32_t left = empty_polls_left_.load(std::memory_order_relaxed);
    if (left > 0) empty_polls_left_.store(left - 1, std::memory_order_relaxed);
  }
  // A thread sleeps until it is woken by what the worker does.
  void SleepBegins() {
    sleepers_.fetch_add(1);
    EndNap();
  }
  void SleepEnds() { sleepers_.fetch_sub(1, std::memory_order_relaxed); }
  // The calling thread waits for what the worker does, in ways not seen here; until somebody polls.
  void HandOver() {
    handed_over_.store(true);
    EndNap();
  }
  void TakeBack() { handed_over_.store(false); }
  // Something waits for the polling thread that should not wait longer than kMaxShortNapNs.
  static constexpr uint64_t kMaxShortNapNs = 100'000;
  void EndLongNap() {
    if (napping_.load(std::memory_order_relaxed) == kLongNap) WakeUp();
  }
  bool ExpectsSleep() const {
    return sleepers_.load() > 0 || empty_polls_left_.load() > 0 || handed_over_.load();
  }

  // The polling thread sleeps for so long (below a second), or until a thread of the application is
  // about to sleep: not at all if one is.
  void Nap(uint64_t ns);
  // The same while threads of the application sleep, or until one more does.
  void Sleep(uint64_t ns);

 private:
  // Whoever announces a sleep looks for a nap then, and whoever announces a nap looks for sleepers:
  // at least one of them sees the other.
  void EndNap() {
    if (napping_.load() != 0) WakeUp();
  }
  void WakeUp();
  void Wait(uint64_t ns, uint32_t nap);

  static constexpr uint32_t kShortNap = 1, kLongNap = 2;

  std::atomic<uint64_t> polled_ns_{0};
  std::atomic<uint32_t> empty_polls_left_{0};
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<bool> handed_over_{false};
  std::atomic<uint32_t> napping_{0};  // a futex: 0, kShortNap or kLongNap
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_POLLING_APPLICATION_ACTIVITY_H_
