#include "stack/engine/timer/timing_wheel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "stack/base/random.h"

namespace pollux::engine {
namespace {

constexpr uint64_t kTickNs = uint64_t{1} << TimingWheel::kTickShift;

uint64_t RoundUp(uint64_t ns) { return (ns + kTickNs - 1) / kTickNs * kTickNs; }

struct Recorder {
  static void Fire(void* context, uint64_t now_ns) {
    static_cast<Recorder*>(context)->fired.push_back(now_ns);
  }
  std::vector<uint64_t> fired;
};

TEST(TimingWheelTest, FiresAtTheTickOfItsDeadlineAndNotBefore) {
  for (const uint64_t deadline : {uint64_t{10'240}, uint64_t{10'241}, uint64_t{1'000'000},
                                  uint64_t{300'000'000}, uint64_t{90'000'000'000}}) {
    TimingWheel wheel(0);
    Recorder recorder;
    Timer timer(&Recorder::Fire, &recorder);
    wheel.Arm(timer, deadline);
    EXPECT_EQ(wheel.Advance(RoundUp(deadline) - 1), 0u) << deadline;
    EXPECT_TRUE(timer.armed());
    EXPECT_EQ(wheel.Advance(RoundUp(deadline)), 1u) << deadline;
    EXPECT_FALSE(timer.armed());
    EXPECT_EQ(recorder.fired, std::vector<uint64_t>{RoundUp(deadline)});
  }
}

TEST(TimingWheelTest, ADeadlineInThePastFiresAtTheNextTick) {
  TimingWheel wheel(50 * kTickNs);
  Recorder recorder;
  Timer timer(&Recorder::Fire, &recorder);
  wheel.Arm(timer, 3);
  EXPECT_EQ(wheel.NextDeadline(), 51 * kTickNs);
  EXPECT_EQ(wheel.Advance(51 * kTickNs - 1), 0u);
  EXPECT_EQ(wheel.Advance(51 * kTickNs), 1u);
}

TEST(TimingWheelTest, ADeadlineBeyondTheHorizonIsRearmed) {
  constexpr uint64_t kHorizonNs = kTickNs << (TimingWheel::kLevels * TimingWheel::kSlotBits);
  for (const uint64_t deadline :
       {kHorizonNs - kTickNs, kHorizonNs, kHorizonNs + kTickNs, 5 * kHorizonNs + 7 * kTickNs}) {
    TimingWheel wheel(0);
    Recorder recorder;
    Timer timer(&Recorder::Fire, &recorder);
    wheel.Arm(timer, deadline);
    unsigned jumps = 0;
    while (recorder.fired.empty()) {
      ASSERT_LE(wheel.NextDeadline(), deadline);
      wheel.Advance(wheel.NextDeadline());
      ASSERT_LT(++jumps, 100u);
    }
    EXPECT_EQ(recorder.fired.front(), deadline);
  }
}

TEST(TimingWheelTest, ATimerAtTheMaximumNeverFires) {
  TimingWheel wheel(0);
  EXPECT_EQ(wheel.NextDeadline(), UINT64_MAX);
  EXPECT_EQ(wheel.Advance(1'000'000'000'000), 0u);
  Recorder recorder;
  Timer timer(&Recorder::Fire, &recorder);
  wheel.Arm(timer, UINT64_MAX);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(wheel.Advance(wheel.NextDeadline()), 0u);
  timer.Cancel();
  EXPECT_EQ(wheel.NextDeadline(), UINT64_MAX);
}

TEST(TimingWheelTest, DestroyingTheTimerOrTheWheelIsSafe) {
  Recorder recorder;
  Timer survivor(&Recorder::Fire, &recorder);
  {
    TimingWheel wheel(0);
    wheel.Arm(survivor, 5000);
    {
      Timer timer(&Recorder::Fire, &recorder);
      wheel.Arm(timer, 5000);
    }
    EXPECT_EQ(wheel.Advance(10'000), 1u);
    wheel.Arm(survivor, 50'000);
  }
  survivor.Cancel();
  EXPECT_FALSE(survivor.armed());
}

TEST(TimingWheelTest, CallbacksMayDestroyTheirOwnAndOtherTimers) {
  struct Pair {
    std::unique_ptr<Timer> own, other;
  } pair;
  const auto destroy_both = [](void* context, uint64_t) { *static_cast<Pair*>(context) = {}; };
  pair.own = std::make_unique<Timer>(destroy_both, &pair);
  pair.other = std::make_unique<Timer>(destroy_both, &pair);
  TimingWheel wheel(0);
  wheel.Arm(*pair.own, 5000);
  wheel.Arm(*pair.other, 5000);
  EXPECT_EQ(wheel.Advance(10'000), 1u);
  EXPECT_EQ(pair.own, nullptr);
}

// A callback that always re-arms for the past must not stop the poll from ending.
TEST(TimingWheelTest, ReArmingForThePastDoesNotLoop) {
  struct State {
    TimingWheel wheel{0};
    unsigned count = 0;
    Timer timer{[](void* context, uint64_t) {
                  auto* state = static_cast<State*>(context);
                  ++state->count;
                  state->wheel.Arm(state->timer, 0);
                },
                this};
  } state;
  state.wheel.Arm(state.timer, 0);
  state.wheel.Advance(10 * kTickNs);
  EXPECT_EQ(state.count, 10u);
}

// The wheel beside a sorted model: thousands of random arms, cancels, moves and jumps of all sizes.
struct Model {
  explicit Model(uint64_t seed, uint64_t start_ns)
      : random(seed), now_ns(start_ns), wheel(start_ns) {
    for (int i = 0; i < kTimers; ++i) {
      entries[i].model = this;
      timers.push_back(std::make_unique<Timer>(&Model::Fire, &entries[i]));
    }
  }
  struct Entry {
    Model* model = nullptr;
    bool armed = false;
    uint64_t due_ns = 0;  // when the wheel has to fire it
  };
  static constexpr int kTimers = 40;

  uint64_t RandomSpan() { return random.Next64() >> (16 + random.Below(48)); }

  // `last_tick_ns`: the latest time that Advance() has got through.
  void Arm(int i, uint64_t last_tick_ns) {
    const uint64_t deadline = now_ns + RandomSpan() - std::min(now_ns, random.Below(4000));
    wheel.Arm(*timers[i], deadline);
    entries[i].armed = true;
    entries[i].due_ns = std::max(RoundUp(deadline), last_tick_ns + kTickNs);
  }
  static void Fire(void* context, uint64_t now_ns) {
    auto* entry = static_cast<Entry*>(context);
    Model& model = *entry->model;
    EXPECT_EQ(now_ns, model.now_ns);
    EXPECT_TRUE(entry->armed);
    EXPECT_LE(entry->due_ns, now_ns);
    EXPECT_GE(entry->due_ns, model.last_due_ns);
    model.last_due_ns = entry->due_ns;
    entry->armed = false;
    const int other = static_cast<int>(model.random.Below(kTimers));
    if (model.random.Chance(0.2)) {
      model.timers[other]->Cancel();
      model.entries[other].armed = false;
    } else if (model.random.Chance(0.3)) {
      model.Arm(other, entry->due_ns);
    }
  }
  uint64_t Earliest() const {
    uint64_t earliest = UINT64_MAX;
    for (const Entry& entry : entries) {
      if (entry.armed) earliest = std::min(earliest, entry.due_ns);
    }
    return earliest;
  }
  void Advance(uint64_t to_ns) {
    now_ns = to_ns;
    last_due_ns = 0;
    wheel.Advance(now_ns);
    ASSERT_GT(Earliest(), now_ns);
  }

  Random random;
  uint64_t now_ns;
  uint64_t last_due_ns = 0;
  Entry entries[kTimers];
  TimingWheel wheel;
  std::vector<std::unique_ptr<Timer>> timers;
};

TEST(TimingWheelTest, MatchesASortedModel) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Model model(seed, Random(seed).Next64() >> 20);
    for (int step = 0; step < 2000; ++step) {
      const int i = static_cast<int>(model.random.Below(Model::kTimers));
      switch (model.random.Below(5)) {
        case 0:
          model.timers[i]->Cancel();
          model.entries[i].armed = false;
          break;
        case 1:
        case 2:
          model.Arm(i, model.now_ns / kTickNs * kTickNs);
          break;
        case 3:
          model.Advance(model.now_ns + model.RandomSpan());
          break;
        default: {
          const uint64_t next = model.wheel.NextDeadline();
          ASSERT_LE(next, model.Earliest());
          ASSERT_GT(next, model.now_ns);
          if (next != UINT64_MAX) model.Advance(next);
        }
      }
      for (int k = 0; k < Model::kTimers; ++k) {
        ASSERT_EQ(model.timers[k]->armed(), model.entries[k].armed);
      }
      if (HasFatalFailure() || HasNonfatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace pollux::engine
