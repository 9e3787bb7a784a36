#include "stack/engine/polling/progress_policy.h"

#include <gtest/gtest.h>

namespace pollux::engine {
namespace {

using Pause = ProgressPolicy::Pause;

constexpr uint64_t kStartNs = 1'000'000'000;
constexpr uint32_t kYieldAfter = 4;

ProgressPolicy::Options Unmodified(Idle idle, uint32_t idle_turns) {
  return {.idle = idle, .idle_turns = idle_turns, .application = Application::kUnmodified};
}

// A look so long after the program has driven, and the turn that is then taken.
Pause Turn(ProgressPolicy& policy, uint64_t silent_ns, const ProgressPolicy::Found& found,
           bool sleep_expected = false) {
  EXPECT_TRUE(policy.Due(kStartNs, kStartNs - silent_ns, sleep_expected)) << silent_ns;
  return policy.AfterTurn(found);
}

constexpr ProgressPolicy::Found kNothingFound{};
constexpr ProgressPolicy::Found kPacket{true, 1};

// Looks that find the program driving, each followed by a nap of `nap_ns`.
void ExpectNapsOfPolled(ProgressPolicy& policy, uint32_t looks, uint64_t nap_ns) {
  for (uint32_t look = 0; look < looks; ++look) {
    EXPECT_FALSE(policy.Due(kStartNs, kStartNs, false));
    EXPECT_EQ(policy.WithoutTurn(), Pause::kNap);
    EXPECT_EQ(policy.nap_ns(), nap_ns) << look;
  }
}

TEST(ProgressPolicy, NapsWhileTheProgramPolls) {
  ProgressPolicy policy(Unmodified(Idle::kYield, kYieldAfter));
  for (const uint64_t polled_ns :
       {kStartNs, kStartNs + 5'000, kStartNs - ProgressPolicy::kAbandonedNs}) {
    EXPECT_FALSE(policy.Due(kStartNs, polled_ns, false));
    EXPECT_EQ(policy.WithoutTurn(), Pause::kNap);
    EXPECT_EQ(policy.nap_ns(), ProgressPolicy::kNapNs);
  }
  EXPECT_TRUE(policy.Due(kStartNs, kStartNs - ProgressPolicy::kAbandonedNs - 1, false));
}

TEST(ProgressPolicy, NapsLongerIfTheProgramKeepsPolling) {
  ProgressPolicy policy(Unmodified(Idle::kYield, kYieldAfter));
  ExpectNapsOfPolled(policy, ProgressPolicy::kPollingLooks - 1, ProgressPolicy::kNapNs);
  ExpectNapsOfPolled(policy, 3, ProgressPolicy::kLongNapNs);
  EXPECT_EQ(Turn(policy, ProgressPolicy::kAbandonedNs + 1, kNothingFound), Pause::kNap);
  EXPECT_EQ(policy.nap_ns(), ProgressPolicy::kNapNs);
  ExpectNapsOfPolled(policy, ProgressPolicy::kPollingLooks - 1, ProgressPolicy::kNapNs);
  ExpectNapsOfPolled(policy, 1, ProgressPolicy::kLongNapNs);
}

TEST(ProgressPolicy, PollsImmediatelyForSleepingThreads) {
  ProgressPolicy policy(Unmodified(Idle::kYield, kYieldAfter));
  EXPECT_TRUE(policy.Due(kStartNs, kStartNs, true));
  EXPECT_EQ(policy.WithoutTurn(), Pause::kYield) << "another thread has the worker";
  for (uint32_t turn = 0; turn < kYieldAfter; ++turn) {
    EXPECT_EQ(Turn(policy, 0, kNothingFound, true), Pause::kNone);
  }
  EXPECT_EQ(Turn(policy, 0, kNothingFound, true), Pause::kYield);
  EXPECT_EQ(Turn(policy, 0, kPacket, true), Pause::kNone);
  EXPECT_EQ(Turn(policy, 0, kNothingFound, true), Pause::kNone);
}

TEST(ProgressPolicy, UsesTheIdleModeForSleepingThreads) {
  ProgressPolicy yields(Unmodified(Idle::kYield, kYieldAfter));
  ProgressPolicy spins(Unmodified(Idle::kSpin, kYieldAfter));
  ProgressPolicy sleeps(Unmodified(Idle::kSleep, kYieldAfter));
  for (uint32_t turn = 0; turn < kYieldAfter; ++turn) {
    for (ProgressPolicy* policy : {&yields, &spins, &sleeps}) {
      EXPECT_EQ(Turn(*policy, 0, kNothingFound, true), Pause::kNone);
    }
  }
  uint64_t last_ns = 0;
  for (uint32_t turn = 0; turn < 2 * ProgressPolicy::kSpinTurns; ++turn) {
    EXPECT_EQ(Turn(yields, 0, kNothingFound, true), Pause::kYield);
    EXPECT_EQ(Turn(spins, 0, kNothingFound, true), Pause::kNone);
    EXPECT_EQ(Turn(sleeps, 0, kNothingFound, true), Pause::kSleep);
    EXPECT_GE(sleeps.nap_ns(), last_ns) << "longer and longer";
    last_ns = sleeps.nap_ns();
  }
  EXPECT_EQ(last_ns, SleepLength::kMaxIdleNs);
  EXPECT_EQ(Turn(sleeps, 0, kPacket, true), Pause::kNone);
  for (uint32_t turn = 0; turn < kYieldAfter; ++turn) Turn(sleeps, 0, kNothingFound, true);
  EXPECT_EQ(Turn(sleeps, 0, kNothingFound, true), Pause::kSleep);
  EXPECT_EQ(sleeps.nap_ns(), SleepLength::kMinNs);
}

TEST(ProgressPolicy, SpinsAndThenNapsForAComputingProgram) {
  ProgressPolicy policy(Unmodified(Idle::kYield, 0));
  EXPECT_EQ(Turn(policy, ProgressPolicy::kMomentNs, kPacket), Pause::kNone);
  for (uint32_t turn = 0; turn < ProgressPolicy::kSpinTurns; ++turn) {
    EXPECT_EQ(Turn(policy, ProgressPolicy::kMomentNs, kNothingFound), Pause::kNone);
  }
  EXPECT_EQ(Turn(policy, ProgressPolicy::kMomentNs, kNothingFound), Pause::kNap);
  EXPECT_EQ(policy.nap_ns(), ProgressPolicy::kNapNs);
}

TEST(ProgressPolicy, NapsInIdleModeSleep) {
  ProgressPolicy policy(Unmodified(Idle::kSleep, kYieldAfter));
  for (uint32_t turn = 0; turn < kYieldAfter; ++turn)
    Turn(policy, ProgressPolicy::kMomentNs, kNothingFound);
  EXPECT_EQ(Turn(policy, ProgressPolicy::kMomentNs, kNothingFound), Pause::kNap);
}

TEST(ProgressPolicy, NapsStayShortWhilePacketsOfAnOccasionalCallerWait) {
  ProgressPolicy policy(Unmodified(Idle::kYield, kYieldAfter));
  EXPECT_EQ(Turn(policy, ProgressPolicy::kAbandonedNs + 1, kNothingFound), Pause::kNap);
  EXPECT_EQ(policy.nap_ns(), ProgressPolicy::kNapNs);
  uint64_t silent_ns = ProgressPolicy::kAbandonedNs + 1;
  for (int packets = 0; packets < 3; ++packets) {
    EXPECT_EQ(Turn(policy, silent_ns, kPacket), Pause::kNone);
    silent_ns = ProgressPolicy::kShortNapNs + 1;  // it is soon abandoned
    EXPECT_EQ(Turn(policy, silent_ns, kNothingFound), Pause::kNap);
    EXPECT_EQ(policy.nap_ns(), ProgressPolicy::kShortNapNs);
    EXPECT_FALSE(policy.Due(kStartNs, kStartNs - ProgressPolicy::kBetweenPollsNs, false))
        << "it polls";
    EXPECT_EQ(policy.WithoutTurn(), Pause::kNap);
    EXPECT_EQ(policy.nap_ns(), ProgressPolicy::kShortNapNs);
  }
  for (uint32_t naps = 1; naps < ProgressPolicy::kShortNaps; ++naps) {
    EXPECT_EQ(Turn(policy, ProgressPolicy::kShortNapNs + 1, kNothingFound), Pause::kNap);
    EXPECT_EQ(policy.nap_ns(), ProgressPolicy::kShortNapNs) << naps;
  }
  EXPECT_EQ(Turn(policy, ProgressPolicy::kAbandonedNs + 1, kNothingFound), Pause::kNap);
  EXPECT_EQ(policy.nap_ns(), ProgressPolicy::kNapNs);
  EXPECT_FALSE(policy.Due(kStartNs, kStartNs - ProgressPolicy::kAbandonedNs, false));
}

TEST(ProgressPolicy, CpuTimeOfTheThreadItselfDoesNotCountAsSilence) {
  ProgressPolicy policy(Unmodified(Idle::kYield, kYieldAfter));
  EXPECT_EQ(Turn(policy, ProgressPolicy::kAbandonedNs + 1, kPacket), Pause::kNone);
  EXPECT_EQ(Turn(policy, ProgressPolicy::kAbandonedNs + 1, kNothingFound), Pause::kNap);
  constexpr uint64_t kEndOfNap = kStartNs + ProgressPolicy::kShortNapNs;
  constexpr uint64_t kAwake = kEndOfNap + ProgressPolicy::kAbandonedNs;
  EXPECT_FALSE(policy.Due(kAwake, kEndOfNap - ProgressPolicy::kBetweenPollsNs, false));
  EXPECT_EQ(policy.WithoutTurn(), Pause::kNap);
  constexpr uint64_t kEndOfNext = kAwake + ProgressPolicy::kShortNapNs;
  EXPECT_TRUE(policy.Due(kEndOfNext, kEndOfNext - ProgressPolicy::kBetweenPollsNs - 1, false));
}

TEST(ProgressPolicy, ShortNapsEndForAProgramThatCallsBetweenThem) {
  ProgressPolicy policy(Unmodified(Idle::kYield, kYieldAfter));
  EXPECT_EQ(Turn(policy, ProgressPolicy::kAbandonedNs + 1, kPacket), Pause::kNone);
  EXPECT_EQ(Turn(policy, ProgressPolicy::kAbandonedNs + 1, kNothingFound), Pause::kNap);
  for (uint32_t naps = 0; naps < ProgressPolicy::kShortNaps; ++naps) {
    EXPECT_EQ(policy.nap_ns(), ProgressPolicy::kShortNapNs) << naps;
    EXPECT_EQ(Turn(policy, ProgressPolicy::kWaitsNs - 1, kPacket), Pause::kNone);
    EXPECT_EQ(Turn(policy, ProgressPolicy::kWaitsNs - 1, kNothingFound), Pause::kNap);
    EXPECT_EQ(policy.nap_ns(), ProgressPolicy::kShortNapNs) << "it was not in vain";
    EXPECT_FALSE(policy.Due(kStartNs, kStartNs, false));
    EXPECT_EQ(policy.WithoutTurn(), Pause::kNap);
  }
  EXPECT_FALSE(policy.Due(kStartNs, kStartNs, false));
  EXPECT_EQ(policy.WithoutTurn(), Pause::kNap);
  EXPECT_EQ(policy.nap_ns(), ProgressPolicy::kNapNs);
}

TEST(ProgressPolicy, HoldsAcksOnlyForAProgramThatHasJustPolled) {
  ProgressPolicy policy(Unmodified(Idle::kYield, kYieldAfter));
  EXPECT_EQ(Turn(policy, ProgressPolicy::kMomentNs - 1, kPacket), Pause::kNone);
  EXPECT_EQ(policy.acks(), transport::AckPolicy::kHold);
  EXPECT_EQ(Turn(policy, ProgressPolicy::kMomentNs, kPacket), Pause::kNone);
  EXPECT_EQ(policy.acks(), transport::AckPolicy::kSendNow) << "it is elsewhere";
  EXPECT_EQ(Turn(policy, 0, kPacket, true), Pause::kNone);
  EXPECT_EQ(policy.acks(), transport::AckPolicy::kSendNow) << "it sleeps, and its peer waits";
}

TEST(ProgressPolicy, DoesNotNapDuringAStreamOfPackets) {
  ProgressPolicy policy(Unmodified(Idle::kYield, 0));
  for (uint64_t packets = 0; packets < ProgressPolicy::kStreamPackets; ++packets) {
    EXPECT_EQ(Turn(policy, ProgressPolicy::kAbandonedNs + 1, kPacket), Pause::kNone);
  }
  for (int packets = 0; packets < 3; ++packets) {
    for (uint32_t turn = 1; turn < ProgressPolicy::kStreamTurns; ++turn) {
      EXPECT_EQ(Turn(policy, ProgressPolicy::kAbandonedNs + 1, kNothingFound), Pause::kNone)
          << turn;
    }
    EXPECT_EQ(Turn(policy, ProgressPolicy::kAbandonedNs + 1, kPacket), Pause::kNone);
  }
  for (uint32_t turn = 1; turn < ProgressPolicy::kStreamTurns; ++turn) {
    EXPECT_EQ(Turn(policy, ProgressPolicy::kAbandonedNs + 1, kNothingFound), Pause::kNone) << turn;
  }
  EXPECT_EQ(Turn(policy, ProgressPolicy::kAbandonedNs + 1, kNothingFound), Pause::kNap);
  EXPECT_EQ(policy.nap_ns(), ProgressPolicy::kShortNapNs);
  EXPECT_EQ(Turn(policy, ProgressPolicy::kAbandonedNs + 1, kPacket), Pause::kNone);
  EXPECT_EQ(Turn(policy, ProgressPolicy::kAbandonedNs + 1, kNothingFound), Pause::kNap)
      << "one is no stream";
}

TEST(ProgressPolicy, NapsWhenOtherThreadsTakeItsCpuOnYield) {
  ProgressPolicy policy(Unmodified(Idle::kYield, kYieldAfter));
  const auto idle = [&policy] {
    for (uint32_t turn = 0; turn < kYieldAfter; ++turn) {
      EXPECT_EQ(Turn(policy, ProgressPolicy::kMomentNs, kNothingFound), Pause::kNone);
    }
    EXPECT_EQ(Turn(policy, ProgressPolicy::kMomentNs, kNothingFound), Pause::kYield);
  };
  idle();
  policy.Yielded(ProgressPolicy::kOthersNs);
  EXPECT_EQ(Turn(policy, ProgressPolicy::kMomentNs, kNothingFound), Pause::kYield)
      << "nobody wanted it";
  policy.Yielded(ProgressPolicy::kOthersNs + 1);
  EXPECT_EQ(Turn(policy, ProgressPolicy::kMomentNs, kPacket), Pause::kNone);
  for (uint32_t turn = 0; turn < kYieldAfter; ++turn) {
    EXPECT_EQ(Turn(policy, ProgressPolicy::kMomentNs, kNothingFound), Pause::kNone);
  }
  for (uint32_t nap = 0; nap < ProgressPolicy::kSharedNaps; ++nap) {
    EXPECT_EQ(Turn(policy, ProgressPolicy::kMomentNs, kNothingFound), Pause::kNap);
    if (nap >= ProgressPolicy::kIdleNaps) {
      EXPECT_GT(policy.nap_ns(), ProgressPolicy::kNapNs) << nap;
    } else {
      EXPECT_EQ(policy.nap_ns(), nap < ProgressPolicy::kShortNaps + 1 ? ProgressPolicy::kShortNapNs
                                                                      : ProgressPolicy::kNapNs)
          << nap;
    }
  }
  EXPECT_EQ(Turn(policy, ProgressPolicy::kMomentNs, kPacket), Pause::kNone);
  idle();
  EXPECT_EQ(Turn(policy, 0, kNothingFound, true), Pause::kYield) << "a sleeper is served at once";
}

TEST(ProgressPolicy, WithCompetingThreadsItDoesNotNapBetweenPacketsOfAComputingProgram) {
  ProgressPolicy policy(Unmodified(Idle::kYield, kYieldAfter));
  policy.Yielded(ProgressPolicy::kOthersNs + 1);
  for (int packets = 0; packets < 3; ++packets) {
    EXPECT_EQ(Turn(policy, ProgressPolicy::kMomentNs, kPacket), Pause::kNone);
    for (uint32_t turn = 0; turn < kYieldAfter; ++turn) {
      EXPECT_EQ(Turn(policy, ProgressPolicy::kMomentNs, kNothingFound), Pause::kNone) << turn;
    }
  }
  EXPECT_EQ(Turn(policy, ProgressPolicy::kMomentNs, kNothingFound), Pause::kNap);
}

TEST(ProgressPolicy, IsBoostedAheadOfAProgramThatPollsItsMemory) {
  ProgressPolicy policy(Unmodified(Idle::kYield, kYieldAfter));
  EXPECT_EQ(policy.boost(), SchedulingBoost::kNone);
  EXPECT_EQ(Turn(policy, ProgressPolicy::kAbandonedNs + 1, kNothingFound), Pause::kNap);
  EXPECT_EQ(policy.boost(), SchedulingBoost::kNone) << "nothing comes for it";
  EXPECT_EQ(Turn(policy, ProgressPolicy::kAbandonedNs + 1, kPacket), Pause::kNone);
  EXPECT_EQ(Turn(policy, ProgressPolicy::kAbandonedNs + 1, kNothingFound), Pause::kNap);
  EXPECT_EQ(policy.boost(), SchedulingBoost::kAhead);
  EXPECT_EQ(Turn(policy, ProgressPolicy::kAheadNs - 1, kPacket), Pause::kNone);
  EXPECT_EQ(policy.boost(), SchedulingBoost::kAhead);
  EXPECT_EQ(Turn(policy, ProgressPolicy::kAheadNs, kPacket), Pause::kNone);
  EXPECT_EQ(policy.boost(), SchedulingBoost::kWokenAtOnce) << "it computes";
  EXPECT_EQ(Turn(policy, 0, kPacket, true), Pause::kNone);
  EXPECT_EQ(policy.boost(), SchedulingBoost::kNone) << "it sleeps";
  EXPECT_EQ(Turn(policy, ProgressPolicy::kAbandonedNs + 1, kNothingFound), Pause::kNap)
      << "not in vain";
  for (uint32_t naps = 0; naps < ProgressPolicy::kShortNaps; ++naps) {
    EXPECT_EQ(Turn(policy, ProgressPolicy::kAbandonedNs + 1, kNothingFound), Pause::kNap);
    EXPECT_EQ(policy.boost(), SchedulingBoost::kAhead);
  }
  EXPECT_EQ(Turn(policy, ProgressPolicy::kAbandonedNs + 1, kNothingFound), Pause::kNap);
  EXPECT_EQ(policy.boost(), SchedulingBoost::kNone) << "naps in vain";
}

TEST(ProgressPolicy, RelaxesInsteadOfNappingInIdleModeSpin) {
  ProgressPolicy policy(Unmodified(Idle::kSpin, kYieldAfter));
  EXPECT_FALSE(policy.Due(kStartNs, kStartNs - ProgressPolicy::kBetweenPollsNs, false));
  EXPECT_EQ(policy.WithoutTurn(), Pause::kRelax);
  EXPECT_EQ(Turn(policy, ProgressPolicy::kBetweenPollsNs + 1, kPacket), Pause::kNone);
  for (uint32_t turn = 0; turn < ProgressPolicy::kSpinTurns; ++turn) {
    EXPECT_EQ(Turn(policy, ProgressPolicy::kAbandonedNs + 1, kNothingFound), Pause::kNone);
  }
  EXPECT_EQ(Turn(policy, ProgressPolicy::kAbandonedNs + 1, kNothingFound), Pause::kNap);
}

TEST(ProgressPolicy, AnIdleProgramIsServedLessThanTwoHundredTimesPerSecond) {
  constexpr uint64_t kSecondNs = 1'000'000'000;
  ProgressPolicy policy(Unmodified(Idle::kYield, kYieldAfter));
  uint64_t now_ns = kStartNs;
  uint32_t naps = 0;
  const auto idle_for = [&](uint64_t ns) {
    naps = 0;
    for (const uint64_t end_ns = now_ns + ns; now_ns < end_ns;) {
      ASSERT_TRUE(policy.Due(now_ns, 0, false));
      if (policy.AfterTurn(kNothingFound) != Pause::kNap) continue;
      ++naps;
      now_ns += policy.nap_ns();
    }
  };
  idle_for(kSecondNs);
  idle_for(kSecondNs);
  EXPECT_LT(naps, 200u);
  // Whoever comes back finds it as attentive as before.
  ASSERT_TRUE(policy.Due(now_ns, 0, false));
  EXPECT_EQ(policy.AfterTurn(kPacket), Pause::kNone);
  idle_for(ProgressPolicy::kIdleNaps / 2 * ProgressPolicy::kNapNs);
  EXPECT_EQ(naps, ProgressPolicy::kIdleNaps / 2);
}

TEST(ProgressPolicy, ASilentNativeApplicationIsServedAsASleeper) {
  ProgressPolicy policy({.idle = Idle::kYield, .idle_turns = kYieldAfter});
  EXPECT_FALSE(policy.Due(kStartNs, kStartNs - ProgressPolicy::kAbandonedNs, false));
  EXPECT_EQ(policy.WithoutTurn(), Pause::kNap);
  for (uint32_t turn = 0; turn < kYieldAfter; ++turn) {
    EXPECT_EQ(Turn(policy, ProgressPolicy::kAbandonedNs + 1, kNothingFound), Pause::kNone);
  }
  for (uint32_t turn = 0; turn < 2 * ProgressPolicy::kSpinTurns; ++turn) {
    EXPECT_EQ(Turn(policy, ProgressPolicy::kAbandonedNs + 1, kNothingFound), Pause::kYield);
  }
  EXPECT_EQ(policy.acks(), transport::AckPolicy::kSendNow);
  EXPECT_EQ(policy.boost(), SchedulingBoost::kNone);
}

TEST(ProgressPolicy, SleepsAreShortAgainAfterTheProgramHasPolled) {
  ProgressPolicy policy({.idle = Idle::kSleep, .idle_turns = 1});
  const auto sleep = [&policy] {
    EXPECT_EQ(Turn(policy, 0, kNothingFound, true), Pause::kNone);
    EXPECT_EQ(Turn(policy, 0, kNothingFound, true), Pause::kSleep);
  };
  sleep();
  EXPECT_EQ(Turn(policy, 0, kNothingFound, true), Pause::kSleep);
  EXPECT_GT(policy.nap_ns(), SleepLength::kMinNs);
  EXPECT_FALSE(policy.Due(kStartNs, kStartNs, false));
  EXPECT_EQ(policy.WithoutTurn(), Pause::kNap);
  sleep();
  EXPECT_EQ(policy.nap_ns(), SleepLength::kMinNs);
}

TEST(ProgressPolicy, SleepsAtMostUntilTheNextTimer) {
  ProgressPolicy policy({.idle = Idle::kSleep, .idle_turns = 1});
  ASSERT_TRUE(policy.Due(kStartNs, 0, false));
  EXPECT_EQ(policy.AfterTurn(kNothingFound, kStartNs + 7), Pause::kNone);
  EXPECT_EQ(policy.AfterTurn(kNothingFound, kStartNs + 7), Pause::kSleep);
  EXPECT_EQ(policy.nap_ns(), 7u);
  EXPECT_EQ(policy.AfterTurn(kNothingFound, kStartNs), Pause::kNone) << "it is due";
}

}  // namespace
}  // namespace pollux::engine
