// The thread that polls the port while the program does not.
#ifndef POLLUX_COMPAT_RUNTIME_PROGRESS_H_
#define POLLUX_COMPAT_RUNTIME_PROGRESS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>

#include "compat/runtime/pace.h"
#include "stack/engine/loop/clock.h"
#include "stack/engine/loop/idle.h"
#include "stack/engine/loop/ownership.h"

namespace pollux::compat {

// What the program's threads tell the progress thread, without a word to it: they write at every
// call, it looks.
class Activity {
 public:
  // A thread of the program has polled the port, until then.
  void Drove(uint64_t now_ns) { driven_ns_.store(now_ns, std::memory_order_relaxed); }
  uint64_t driven_ns() const { return driven_ns_.load(std::memory_order_relaxed); }

  // A completion queue was armed: who does that is about to sleep, perhaps in a poll(2) that nobody
  // here sees. Who keeps on finding nothing in completion queues is not.
  static constexpr uint32_t kEmptyPollsOfSleeper = 8;
  void Armed() {
    empty_polls_left_.store(kEmptyPollsOfSleeper);
    EndNap();
  }
  void FoundNothing() {
    const uint32_t left = empty_polls_left_.load(std::memory_order_relaxed);
    if (left > 0) empty_polls_left_.store(left - 1, std::memory_order_relaxed);
  }
  // A thread sleeps until a completion is announced.
  void SleepBegins() {
    sleepers_.fetch_add(1);
    EndNap();
  }
  void SleepEnds() { sleepers_.fetch_sub(1, std::memory_order_relaxed); }
  bool ExpectsSleep() const { return sleepers_.load() > 0 || empty_polls_left_.load() > 0; }

  // The progress thread sleeps for so long (below a second), or until a thread of the program is
  // about to sleep: not at all if one is.
  void Nap(uint64_t ns);
  // The same while threads of the program sleep, or until one more does.
  void Sleep(uint64_t ns);

 private:
  // Who announces a sleep and then looks for a nap, and who announces a nap and then looks for
  // sleepers: at least one of them sees the other.
  void EndNap() {
    if (napping_.load() != 0) WakeUp();
  }
  void WakeUp();
  void Wait(uint64_t ns);

  std::atomic<uint64_t> driven_ns_{0};
  std::atomic<uint32_t> empty_polls_left_{0};
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<uint32_t> napping_{0};  // a futex
};

// The hand-over between a program that polls and one that sleeps. Each of the program's calls
// drives the worker on its own thread (run to completion). This thread drives too, one turn at a
// time, when the program does not (Pace). Ownership makes any mix of the two safe; at worst both
// ask for turns, and this thread stands back.
class Progress {
 public:
  struct Options {
    std::optional<int> cpu;
    engine::Idle idle = engine::Idle::kYield;
    uint32_t yield_after = 256;  // turns without work, before it yields or naps
  };
  // `poll(now_ns, awaits_post)` is one turn of the loop; called by the owner. `awaits_post`: the
  // program may be about to post what can take acknowledgements along. Both references outlive
  // this.
  Progress(const Options& options, engine::Ownership* ownership, Activity* activity,
           std::function<Pace::Found(uint64_t, bool)> poll);
  ~Progress() { Stop(); }

  // Returns when the thread has ended.
  void Stop();

 private:
  void Run();
  void Rest(Pace::Pause pause, const engine::Clock& clock, Pace* pace);
  // Who is woken waits for the end of the slice of a program that runs on, milliseconds, unless its
  // own is shorter. That makes no thread's share of the CPU larger, and a program that sleeps wants
  // its CPU from this thread as soon. A larger share is by a nice value, which the process may be
  // refused: then this thread does without.
  void Stand(Pace::Standing standing);

  Options options_;
  engine::Ownership* ownership_;
  Activity* activity_;
  std::function<Pace::Found(uint64_t, bool)> poll_;
  std::atomic<bool> stop_{false};
  Pace::Standing standing_ = Pace::Standing::kUsual;
  int usual_nice_ = 0;  // when it has last left kUsual, or what it was given since
  int nice_ahead_ = 0;  // what was asked for last
  bool refused_ = false;
  std::thread thread_;
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_RUNTIME_PROGRESS_H_
