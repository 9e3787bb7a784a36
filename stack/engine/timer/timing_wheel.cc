#include "stack/engine/timer/timing_wheel.h"

#include <algorithm>
#include <bit>

namespace pollux::engine {
namespace {

// The first tick at which a deadline has been reached.
uint64_t TickOf(uint64_t deadline_ns) {
  constexpr uint64_t kRoundUp = (1u << TimingWheel::kTickShift) - 1;
  return (deadline_ns >> TimingWheel::kTickShift) + ((deadline_ns & kRoundUp) != 0);
}

}  // namespace

void Timer::Cancel() {
  if (next_ == nullptr) return;
  next_->prev_ = prev_;
  prev_->next_ = next_;
  next_ = prev_ = nullptr;
}

void Timer::PushBack(Timer& timer) {
  timer.prev_ = prev_;
  timer.next_ = this;
  prev_->next_ = &timer;
  prev_ = &timer;
}

TimingWheel::TimingWheel(uint64_t now_ns) : tick_((now_ns >> kTickShift) + 1) {}

void TimingWheel::Arm(Timer& timer, uint64_t deadline_ns) {
  timer.Cancel();
  timer.deadline_ns_ = deadline_ns;
  Insert(timer);
}

// A level holds what is due within its span, in slots that are one span of the level below wide. A
// timer lies at least one such slot ahead, so a slot whose time has come holds nothing for its next
// turn.
void TimingWheel::Insert(Timer& timer) {
  constexpr uint64_t kHorizon = (uint64_t{1} << (kLevels * kSlotBits)) - 1;
  const uint64_t ahead = std::min(std::max(TickOf(timer.deadline_ns_), tick_) - tick_, kHorizon);
  const uint64_t tick = tick_ + ahead;
  const int level = ahead == 0 ? 0 : (std::bit_width(ahead) - 1) / kSlotBits;
  const unsigned slot = (tick >> (level * kSlotBits)) % kSlots;
  slots_[level][slot].head.PushBack(timer);
  occupied_[level][slot / 64] |= uint64_t{1} << (slot % 64);
  const uint64_t slot_start = tick >> (level * kSlotBits) << (level * kSlotBits);
  idle_until_tick_ = std::min(idle_until_tick_, slot_start);
}

void TimingWheel::MoveDown(int level) {
  Timer& slot = slots_[level][(tick_ >> (level * kSlotBits)) % kSlots].head;
  Timer moving;
  while (!slot.alone()) {
    Timer& timer = *slot.next_;
    timer.Cancel();
    moving.PushBack(timer);
  }
  while (!moving.alone()) {
    Timer& timer = *moving.next_;
    timer.Cancel();
    Insert(timer);
  }
}

// Leaves tick_ at the next tick: callbacks that arm a timer cannot make this loop endless.
unsigned TimingWheel::FireCurrent() {
  Timer& slot = slots_[0][tick_ % kSlots].head;
  Timer due;
  while (!slot.alone()) {
    Timer& timer = *slot.next_;
    timer.Cancel();
    due.PushBack(timer);
  }
  const uint64_t now_ns = tick_ << kTickShift;
  ++tick_;
  unsigned fired = 0;
  while (!due.alone()) {
    Timer& timer = *due.next_;
    timer.Cancel();
    if (timer.deadline_ns_ > now_ns) {  // it lay beyond the horizon when it was armed
      Insert(timer);
      continue;
    }
    ++fired;
    timer.callback_(timer.context_, fire_time_ns_);
  }
  return fired;
}

unsigned TimingWheel::AdvanceTo(uint64_t now_ns) {
  const uint64_t now_tick = now_ns >> kTickShift;
  fire_time_ns_ = now_ns;
  unsigned fired = 0;
  while (idle_until_tick_ <= now_tick) {
    const uint64_t next = NextTick();
    if (next > now_tick) {
      idle_until_tick_ = next;
      break;
    }
    tick_ = next;
    for (int level = kLevels - 1; level > 0; --level) {
      if (tick_ % (uint64_t{1} << (level * kSlotBits)) == 0) MoveDown(level);
    }
    // What callbacks arm lowers it again.
    idle_until_tick_ = tick_ + 1;
    fired += FireCurrent();
  }
  tick_ = now_tick + 1;
  return fired;
}

uint64_t TimingWheel::NextDeadline() const {
  const uint64_t tick = NextTick();
  return tick > UINT64_MAX >> kTickShift ? UINT64_MAX : tick << kTickShift;
}

uint64_t TimingWheel::NextTick() const {
  uint64_t next = kNoTick;
  for (int level = 0; level < kLevels; ++level) next = std::min(next, NextTickOf(level));
  return next;
}

// The tick at which the first occupied slot of a level must be looked at.
uint64_t TimingWheel::NextTickOf(int level) const {
  const int shift = level * kSlotBits;
  const uint64_t current = tick_ >> shift;
  // The current slot of an upper level was emptied when its span began, unless it begins now: what
  // it holds is for its next turn, a whole revolution ahead.
  const bool begins_now = (current << shift) == tick_;
  const uint64_t first = begins_now ? current : current + 1;
  for (uint64_t position = first; position < first + kSlots;) {
    const unsigned slot = position % kSlots;
    uint64_t& word = occupied_[level][slot / 64];
    const uint64_t ahead = word >> (slot % 64);
    if (ahead == 0) {
      position += 64 - slot % 64;
      continue;
    }
    position += std::countr_zero(ahead);
    if (position >= first + kSlots) break;
    const unsigned found = position % kSlots;
    if (!slots_[level][found].head.alone()) return position << shift;
    word &= ~(uint64_t{1} << (found % 64));
  }
  return kNoTick;
}

}  // namespace pollux::engine
