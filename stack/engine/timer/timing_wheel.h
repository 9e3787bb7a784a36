// Timers driven by the time that is passed to each poll: a hierarchical timing wheel.
#ifndef POLLUX_STACK_ENGINE_TIMER_TIMING_WHEEL_H_
#define POLLUX_STACK_ENGINE_TIMER_TIMING_WHEEL_H_

#include <array>
#include <cstdint>

namespace pollux::engine {

// A timer, embedded in the object that it serves. Destroying an armed timer cancels it.
class Timer {
 public:
  using Callback = void (*)(void* context, uint64_t now_ns);
  Timer(Callback callback, void* context) : callback_(callback), context_(context) {}
  ~Timer() { Cancel(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  bool armed() const { return next_ != nullptr; }
  uint64_t deadline_ns() const { return deadline_ns_; }  // valid while armed
  void Cancel();

 private:
  friend class TimingWheel;
  // Creates a list head.
  Timer() : callback_(nullptr), context_(nullptr), next_(this), prev_(this) {}
  bool alone() const { return next_ == this; }
  void PushBack(Timer& timer);
  Callback callback_;
  void* context_;
  uint64_t deadline_ns_ = 0;
  Timer* next_ = nullptr;
  Timer* prev_ = nullptr;
};

// Owned by one worker; not thread-safe. Arming, cancelling and firing take constant time; the wheel
// uses no heap and reads no clock. A timer fires at the first Advance() whose time has reached the
// deadline rounded up to a tick: never early, and late by less than a tick. A timer with a deadline
// in the past fires at the next tick.
class TimingWheel {
 public:
  static constexpr int kTickShift = 10;  // 1,024 ns
  static constexpr int kSlotBits = 8;    // 256 slots per level
  static constexpr int kLevels = 5;      // 2^40 ticks, over 13 days; later timers are re-armed

  explicit TimingWheel(uint64_t now_ns);

  // Arms a timer, or moves one that is armed. Not owned.
  void Arm(Timer& timer, uint64_t deadline_ns);
  // Fires all timers that are due, ordered by the tick of their deadline. Callbacks may arm, cancel
  // and destroy any timer, including their own. Returns the number of timers fired. `now_ns` must
  // not be less than in an earlier call.
  unsigned Advance(uint64_t now_ns) {
    const uint64_t now_tick = now_ns >> kTickShift;
    if (now_tick < idle_until_tick_) [[likely]] {
      tick_ = now_tick + 1;
      return 0;
    }
    return now_tick < tick_ ? 0 : AdvanceTo(now_ns);
  }
  // A time before which Advance() has nothing to do, later than the last Advance(); UINT64_MAX if
  // no timer is armed. Virtual time may jump that far.
  uint64_t NextDeadline() const;

 private:
  static constexpr int kSlots = 1 << kSlotBits;
  static constexpr int kWords = kSlots / 64;
  static constexpr uint64_t kNoTick = UINT64_MAX;
  struct Slot {
    Slot() {}
    Timer head;
  };

  [[gnu::noinline]] unsigned AdvanceTo(uint64_t now_ns);
  void Insert(Timer& timer);
  void MoveDown(int level);
  unsigned FireCurrent();
  uint64_t NextTick() const;
  uint64_t NextTickOf(int level) const;

  uint64_t tick_;              // the next one to process
  uint64_t fire_time_ns_ = 0;  // of the Advance() in progress
  // No timer is due before this tick, so most polls need no search.
  uint64_t idle_until_tick_ = kNoTick;
  std::array<std::array<Slot, kSlots>, kLevels> slots_;
  // One bit per slot that may hold timers; it stays set when they are cancelled.
  mutable std::array<std::array<uint64_t, kWords>, kLevels> occupied_{};
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_TIMER_TIMING_WHEEL_H_
