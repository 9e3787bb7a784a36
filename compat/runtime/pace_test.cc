#include "compat/runtime/pace.h"

#include <gtest/gtest.h>

namespace pollux::compat {
namespace {

using engine::Idle;
using Pause = Pace::Pause;

constexpr uint64_t kStartNs = 1'000'000'000;
constexpr uint32_t kYieldAfter = 4;

// A look so long after the program has driven, and the turn that is then taken.
Pause Turn(Pace& pace, uint64_t silent_ns, const Pace::Found& found, bool sleep_expected = false) {
  EXPECT_TRUE(pace.Due(kStartNs, kStartNs - silent_ns, sleep_expected)) << silent_ns;
  return pace.AfterTurn(found);
}

constexpr Pace::Found kNothingFound{};
constexpr Pace::Found kPacket{true, 1};

// Looks that find the program driving, each followed by a nap of `nap_ns`.
void ExpectNapsOfPolled(Pace& pace, uint32_t looks, uint64_t nap_ns) {
  for (uint32_t look = 0; look < looks; ++look) {
    EXPECT_FALSE(pace.Due(kStartNs, kStartNs, false));
    EXPECT_EQ(pace.WithoutTurn(), Pause::kNap);
    EXPECT_EQ(pace.nap_ns(), nap_ns) << look;
  }
}

TEST(Pace, LeavesAPollingProgramItsPort) {
  Pace pace(Idle::kYield, kYieldAfter);
  for (const uint64_t driven_ns : {kStartNs, kStartNs + 5'000, kStartNs - Pace::kAbandonedNs}) {
    EXPECT_FALSE(pace.Due(kStartNs, driven_ns, false));
    EXPECT_EQ(pace.WithoutTurn(), Pause::kNap);
    EXPECT_EQ(pace.nap_ns(), Pace::kNapNs);
  }
  EXPECT_TRUE(pace.Due(kStartNs, kStartNs - Pace::kAbandonedNs - 1, false));
}

TEST(Pace, LooksSeldomAtAProgramThatPollsOn) {
  Pace pace(Idle::kYield, kYieldAfter);
  ExpectNapsOfPolled(pace, Pace::kPollingLooks - 1, Pace::kNapNs);
  ExpectNapsOfPolled(pace, 3, Pace::kLongNapNs);
  EXPECT_EQ(Turn(pace, Pace::kAbandonedNs + 1, kNothingFound), Pause::kNap);
  EXPECT_EQ(pace.nap_ns(), Pace::kNapNs);
  ExpectNapsOfPolled(pace, Pace::kPollingLooks - 1, Pace::kNapNs);
  ExpectNapsOfPolled(pace, 1, Pace::kLongNapNs);
}

TEST(Pace, ServesSleepersAtOnce) {
  Pace pace(Idle::kYield, kYieldAfter);
  EXPECT_TRUE(pace.Due(kStartNs, kStartNs, true));
  EXPECT_EQ(pace.WithoutTurn(), Pause::kYield) << "another thread has the worker";
  for (uint32_t turn = 0; turn < kYieldAfter; ++turn) {
    EXPECT_EQ(Turn(pace, 0, kNothingFound, true), Pause::kNone);
  }
  EXPECT_EQ(Turn(pace, 0, kNothingFound, true), Pause::kYield);
  EXPECT_EQ(Turn(pace, 0, kPacket, true), Pause::kNone);
  EXPECT_EQ(Turn(pace, 0, kNothingFound, true), Pause::kNone);
}

TEST(Pace, IdlesForSleepersAsItIsTold) {
  Pace yields(Idle::kYield, kYieldAfter);
  Pace spins(Idle::kSpin, kYieldAfter);
  Pace sleeps(Idle::kSleep, kYieldAfter);
  for (uint32_t turn = 0; turn < kYieldAfter; ++turn) {
    for (Pace* pace : {&yields, &spins, &sleeps}) {
      EXPECT_EQ(Turn(*pace, 0, kNothingFound, true), Pause::kNone);
    }
  }
  uint64_t last_ns = 0;
  for (uint32_t turn = 0; turn < 2 * Pace::kSpinTurns; ++turn) {
    EXPECT_EQ(Turn(yields, 0, kNothingFound, true), Pause::kYield);
    EXPECT_EQ(Turn(spins, 0, kNothingFound, true), Pause::kNone);
    EXPECT_EQ(Turn(sleeps, 0, kNothingFound, true), Pause::kSleep);
    EXPECT_GE(sleeps.nap_ns(), last_ns) << "longer and longer";
    last_ns = sleeps.nap_ns();
  }
  EXPECT_EQ(last_ns, engine::SleepLength::kMaxNs);
  EXPECT_EQ(Turn(sleeps, 0, kPacket, true), Pause::kNone);
  for (uint32_t turn = 0; turn < kYieldAfter; ++turn) Turn(sleeps, 0, kNothingFound, true);
  EXPECT_EQ(Turn(sleeps, 0, kNothingFound, true), Pause::kSleep);
  EXPECT_EQ(sleeps.nap_ns(), engine::SleepLength::kMinNs);
}

TEST(Pace, SpinsForAProgramThatIsElsewhereAndThenNaps) {
  Pace pace(Idle::kYield, 0);
  EXPECT_EQ(Turn(pace, Pace::kMomentNs, kPacket), Pause::kNone);
  for (uint32_t turn = 0; turn < Pace::kSpinTurns; ++turn) {
    EXPECT_EQ(Turn(pace, Pace::kMomentNs, kNothingFound), Pause::kNone);
  }
  EXPECT_EQ(Turn(pace, Pace::kMomentNs, kNothingFound), Pause::kNap);
  EXPECT_EQ(pace.nap_ns(), Pace::kNapNs);
}

TEST(Pace, NapsWhereIdleMeansSleep) {
  Pace pace(Idle::kSleep, kYieldAfter);
  for (uint32_t turn = 0; turn < kYieldAfter; ++turn) Turn(pace, Pace::kMomentNs, kNothingFound);
  EXPECT_EQ(Turn(pace, Pace::kMomentNs, kNothingFound), Pause::kNap);
}

TEST(Pace, NapsAreShortAsLongAsThePacketsOfOneWhoCallsNowAndThenWaitForTheirEnd) {
  Pace pace(Idle::kYield, kYieldAfter);
  EXPECT_EQ(Turn(pace, Pace::kAbandonedNs + 1, kNothingFound), Pause::kNap);
  EXPECT_EQ(pace.nap_ns(), Pace::kNapNs);
  uint64_t silent_ns = Pace::kAbandonedNs + 1;
  for (int packets = 0; packets < 3; ++packets) {
    EXPECT_EQ(Turn(pace, silent_ns, kPacket), Pause::kNone);
    silent_ns = Pace::kShortNapNs + 1;  // it is soon abandoned
    EXPECT_EQ(Turn(pace, silent_ns, kNothingFound), Pause::kNap);
    EXPECT_EQ(pace.nap_ns(), Pace::kShortNapNs);
    EXPECT_FALSE(pace.Due(kStartNs, kStartNs - Pace::kBetweenPollsNs, false)) << "it polls";
    EXPECT_EQ(pace.WithoutTurn(), Pause::kNap);
    EXPECT_EQ(pace.nap_ns(), Pace::kShortNapNs);
  }
  for (uint32_t naps = 1; naps < Pace::kShortNaps; ++naps) {
    EXPECT_EQ(Turn(pace, Pace::kShortNapNs + 1, kNothingFound), Pause::kNap);
    EXPECT_EQ(pace.nap_ns(), Pace::kShortNapNs) << naps;
  }
  EXPECT_EQ(Turn(pace, Pace::kAbandonedNs + 1, kNothingFound), Pause::kNap);
  EXPECT_EQ(pace.nap_ns(), Pace::kNapNs);
  EXPECT_FALSE(pace.Due(kStartNs, kStartNs - Pace::kAbandonedNs, false));
}

TEST(Pace, ThatItsThreadTakesTheCpuIsNoSilenceOfAProgram) {
  Pace pace(Idle::kYield, kYieldAfter);
  EXPECT_EQ(Turn(pace, Pace::kAbandonedNs + 1, kPacket), Pause::kNone);
  EXPECT_EQ(Turn(pace, Pace::kAbandonedNs + 1, kNothingFound), Pause::kNap);
  constexpr uint64_t kEndOfNap = kStartNs + Pace::kShortNapNs;
  constexpr uint64_t kAwake = kEndOfNap + Pace::kAbandonedNs;
  EXPECT_FALSE(pace.Due(kAwake, kEndOfNap - Pace::kBetweenPollsNs, false));
  EXPECT_EQ(pace.WithoutTurn(), Pause::kNap);
  constexpr uint64_t kEndOfNext = kAwake + Pace::kShortNapNs;
  EXPECT_TRUE(pace.Due(kEndOfNext, kEndOfNext - Pace::kBetweenPollsNs - 1, false));
}

TEST(Pace, OneThatCallsBetweenShortNapsHasThemForNoLonger) {
  Pace pace(Idle::kYield, kYieldAfter);
  EXPECT_EQ(Turn(pace, Pace::kAbandonedNs + 1, kPacket), Pause::kNone);
  EXPECT_EQ(Turn(pace, Pace::kAbandonedNs + 1, kNothingFound), Pause::kNap);
  for (uint32_t naps = 0; naps < Pace::kShortNaps; ++naps) {
    EXPECT_EQ(pace.nap_ns(), Pace::kShortNapNs) << naps;
    EXPECT_EQ(Turn(pace, Pace::kWaitsNs - 1, kPacket), Pause::kNone);
    EXPECT_EQ(Turn(pace, Pace::kWaitsNs - 1, kNothingFound), Pause::kNap);
    EXPECT_EQ(pace.nap_ns(), Pace::kShortNapNs) << "it was not in vain";
    EXPECT_FALSE(pace.Due(kStartNs, kStartNs, false));
    EXPECT_EQ(pace.WithoutTurn(), Pause::kNap);
  }
  EXPECT_FALSE(pace.Due(kStartNs, kStartNs, false));
  EXPECT_EQ(pace.WithoutTurn(), Pause::kNap);
  EXPECT_EQ(pace.nap_ns(), Pace::kNapNs);
}

TEST(Pace, KnowsWhoMayBeAboutToAnswerWhatComes) {
  Pace pace(Idle::kYield, kYieldAfter);
  EXPECT_EQ(Turn(pace, Pace::kMomentNs - 1, kPacket), Pause::kNone);
  EXPECT_TRUE(pace.AwaitsPost());
  EXPECT_EQ(Turn(pace, Pace::kMomentNs, kPacket), Pause::kNone);
  EXPECT_FALSE(pace.AwaitsPost()) << "it is elsewhere";
  EXPECT_EQ(Turn(pace, 0, kPacket, true), Pause::kNone);
  EXPECT_FALSE(pace.AwaitsPost()) << "it sleeps, and its peer waits";
}

TEST(Pace, DoesNotNapWhileMoreOfAMessageIsToCome) {
  Pace pace(Idle::kYield, 0);
  for (uint64_t packets = 0; packets < Pace::kStreamPackets; ++packets) {
    EXPECT_EQ(Turn(pace, Pace::kAbandonedNs + 1, kPacket), Pause::kNone);
  }
  for (int packets = 0; packets < 3; ++packets) {
    for (uint32_t turn = 1; turn < Pace::kStreamTurns; ++turn) {
      EXPECT_EQ(Turn(pace, Pace::kAbandonedNs + 1, kNothingFound), Pause::kNone) << turn;
    }
    EXPECT_EQ(Turn(pace, Pace::kAbandonedNs + 1, kPacket), Pause::kNone);
  }
  for (uint32_t turn = 1; turn < Pace::kStreamTurns; ++turn) {
    EXPECT_EQ(Turn(pace, Pace::kAbandonedNs + 1, kNothingFound), Pause::kNone) << turn;
  }
  EXPECT_EQ(Turn(pace, Pace::kAbandonedNs + 1, kNothingFound), Pause::kNap);
  EXPECT_EQ(pace.nap_ns(), Pace::kShortNapNs);
  EXPECT_EQ(Turn(pace, Pace::kAbandonedNs + 1, kPacket), Pause::kNone);
  EXPECT_EQ(Turn(pace, Pace::kAbandonedNs + 1, kNothingFound), Pause::kNap) << "one is no stream";
}

TEST(Pace, NapsWhereOthersTakeTheCpuOfOneThatYields) {
  Pace pace(Idle::kYield, kYieldAfter);
  const auto idle = [&pace] {
    for (uint32_t turn = 0; turn < kYieldAfter; ++turn) {
      EXPECT_EQ(Turn(pace, Pace::kMomentNs, kNothingFound), Pause::kNone);
    }
    EXPECT_EQ(Turn(pace, Pace::kMomentNs, kNothingFound), Pause::kYield);
  };
  idle();
  pace.Yielded(Pace::kOthersNs);
  EXPECT_EQ(Turn(pace, Pace::kMomentNs, kNothingFound), Pause::kYield) << "nobody wanted it";
  pace.Yielded(Pace::kOthersNs + 1);
  EXPECT_EQ(Turn(pace, Pace::kMomentNs, kPacket), Pause::kNone);
  for (uint32_t turn = 0; turn < kYieldAfter; ++turn) {
    EXPECT_EQ(Turn(pace, Pace::kMomentNs, kNothingFound), Pause::kNone);
  }
  for (uint32_t nap = 0; nap < Pace::kSharedNaps; ++nap) {
    EXPECT_EQ(Turn(pace, Pace::kMomentNs, kNothingFound), Pause::kNap);
    EXPECT_EQ(pace.nap_ns(), nap < Pace::kShortNaps + 1 ? Pace::kShortNapNs : Pace::kNapNs) << nap;
  }
  EXPECT_EQ(Turn(pace, Pace::kMomentNs, kPacket), Pause::kNone);
  idle();
  EXPECT_EQ(Turn(pace, 0, kNothingFound, true), Pause::kYield) << "a sleeper is served at once";
}

TEST(Pace, WhereOthersTookTheCpuItDoesNotNapBetweenPacketsForAProgramThatIsElsewhere) {
  Pace pace(Idle::kYield, kYieldAfter);
  pace.Yielded(Pace::kOthersNs + 1);
  for (int packets = 0; packets < 3; ++packets) {
    EXPECT_EQ(Turn(pace, Pace::kMomentNs, kPacket), Pause::kNone);
    for (uint32_t turn = 0; turn < kYieldAfter; ++turn) {
      EXPECT_EQ(Turn(pace, Pace::kMomentNs, kNothingFound), Pause::kNone) << turn;
    }
  }
  EXPECT_EQ(Turn(pace, Pace::kMomentNs, kNothingFound), Pause::kNap);
}

TEST(Pace, GoesAheadOfAProgramThatWaitsForItsMemory) {
  using Standing = Pace::Standing;
  Pace pace(Idle::kYield, kYieldAfter);
  EXPECT_EQ(pace.standing(), Standing::kUsual);
  EXPECT_EQ(Turn(pace, Pace::kAbandonedNs + 1, kNothingFound), Pause::kNap);
  EXPECT_EQ(pace.standing(), Standing::kUsual) << "nothing comes for it";
  EXPECT_EQ(Turn(pace, Pace::kAbandonedNs + 1, kPacket), Pause::kNone);
  EXPECT_EQ(Turn(pace, Pace::kAbandonedNs + 1, kNothingFound), Pause::kNap);
  EXPECT_EQ(pace.standing(), Standing::kAhead);
  EXPECT_EQ(Turn(pace, Pace::kAheadNs - 1, kPacket), Pause::kNone);
  EXPECT_EQ(pace.standing(), Standing::kAhead);
  EXPECT_EQ(Turn(pace, Pace::kAheadNs, kPacket), Pause::kNone);
  EXPECT_EQ(pace.standing(), Standing::kWokenAtOnce) << "it computes";
  EXPECT_EQ(Turn(pace, 0, kPacket, true), Pause::kNone);
  EXPECT_EQ(pace.standing(), Standing::kUsual) << "it sleeps";
  EXPECT_EQ(Turn(pace, Pace::kAbandonedNs + 1, kNothingFound), Pause::kNap) << "not in vain";
  for (uint32_t naps = 0; naps < Pace::kShortNaps; ++naps) {
    EXPECT_EQ(Turn(pace, Pace::kAbandonedNs + 1, kNothingFound), Pause::kNap);
    EXPECT_EQ(pace.standing(), Standing::kAhead);
  }
  EXPECT_EQ(Turn(pace, Pace::kAbandonedNs + 1, kNothingFound), Pause::kNap);
  EXPECT_EQ(pace.standing(), Standing::kUsual) << "naps in vain";
}

TEST(Pace, HasACpuOfItsOwnWhereIdleMeansSpin) {
  Pace pace(Idle::kSpin, kYieldAfter);
  EXPECT_FALSE(pace.Due(kStartNs, kStartNs - Pace::kBetweenPollsNs, false));
  EXPECT_EQ(pace.WithoutTurn(), Pause::kRelax);
  EXPECT_EQ(Turn(pace, Pace::kBetweenPollsNs + 1, kPacket), Pause::kNone);
  for (uint32_t turn = 0; turn < Pace::kSpinTurns; ++turn) {
    EXPECT_EQ(Turn(pace, Pace::kAbandonedNs + 1, kNothingFound), Pause::kNone);
  }
  EXPECT_EQ(Turn(pace, Pace::kAbandonedNs + 1, kNothingFound), Pause::kNap);
}

}  // namespace
}  // namespace pollux::compat
