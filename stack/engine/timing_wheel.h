// Timers driven by the time that each poll is given: a hierarchical wheel.
#ifndef POLLUX_STACK_ENGINE_TIMING_WHEEL_H_
#define POLLUX_STACK_ENGINE_TIMING_WHEEL_H_

#include <array>
#include <cstdint>

namespace pollux::engine {

// A timer, embedded in what it belongs to. Destroying an armed timer cancels it.
class Timer {
 public:
  using Callback = void (*)(void* context, uint64_t now_ns);
  Timer(Callback callback, void* context) : callback_(callback), context_(context) {}
  ~Timer() { Cancel(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  bool armed() const { return next_ != nullptr; }
  uint64_t deadline_ns() const { return deadline_ns_; }  // when armed
  void Cancel();

 private:
  friend class TimingWheel;
  Timer() : callback_(nullptr), context_(nullptr) {}  // a list head
  Callback callback_;
  void* context_;
  uint64_t deadline_ns_ = 0;
  Timer* next_ = nullptr;
  Timer* prev_ = nullptr;
};

// Owned by one worker. Arming, cancelling and firing are constant-time; no heap, no clock. A timer
// fires at the first Advance() at or after its deadline, never before it, and at most one tick
// after it (given that Advance is called).
class TimingWheel {
 public:
  static constexpr int kTickShift = 10;  // 1,024 ns
  static constexpr int kSlotBits = 8;    // 256 slots a level
  static constexpr int kLevels = 5;      // 2^40 ticks: over 13 days; later ones are re-armed

  explicit TimingWheel(uint64_t now_ns);

  // Arms, or moves an armed timer.
  void Arm(Timer& timer, uint64_t deadline_ns);
  // Fires what is due; callbacks may arm and cancel any timer. Returns how many fired.
  unsigned Advance(uint64_t now_ns);
  // A lower bound of the earliest deadline, UINT64_MAX when nothing is armed: how far virtual time
  // may jump.
  uint64_t NextDeadline() const;

 private:
  static constexpr int kSlots = 1 << kSlotBits;
  void Insert(Timer& timer);
  void Cascade(int level);
  uint64_t tick_;  // the next to be processed
  std::array<std::array<Timer, kSlots>, kLevels> slots_;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_TIMING_WHEEL_H_
