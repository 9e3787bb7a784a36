#include "tools/common/interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

#include "stack/base/repeated_signal_filter.h"

namespace pollux::tools {
namespace {

void Await(int64_t ms) { usleep(static_cast<useconds_t>(ms * 1000)); }

TEST(CatchInterrupts, ASecondSignalEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto insist = [] {
    CatchInterrupts();
    raise(SIGINT);
    if (!Interrupted()) std::exit(1);
    Await(RepeatedSignalFilter::kAtOnceMs);
    raise(SIGTERM);
  };
  EXPECT_EXIT(insist(), testing::KilledBySignal(SIGTERM), "");
}

TEST(CatchInterrupts, ASigpipeDoesNotCountAsARequest) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto write = [] {
    CatchInterrupts();
    for (int i = 0; i < 2; ++i) {
      raise(SIGPIPE);
      Await(RepeatedSignalFilter::kAtOnceMs);
    }
    raise(SIGINT);
    std::exit(Interrupted() ? 0 : 1);
  };
  EXPECT_EXIT(write(), testing::ExitedWithCode(0), "");
}

TEST(CatchInterrupts, AnIgnoredSigpipeStaysIgnored) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // The exit status: 0 if SIGPIPE interrupts, otherwise 1.
  const auto is_interrupted = [](void (*before)(int)) {
    signal(SIGPIPE, before);
    CatchInterrupts();
    raise(SIGPIPE);
    std::exit(Interrupted() ? 0 : 1);
  };
  EXPECT_EXIT(is_interrupted(SIG_DFL), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(is_interrupted(SIG_IGN), testing::ExitedWithCode(1), "");
}

TEST(CatchInterrupts, AHangupEndsACommandAndReloadsAService) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto hang_up = [](Hangup hangup) {
    signal(SIGHUP, SIG_DFL);
    CatchInterrupts(ClosedPipe::kInterrupts, hangup);
    for (int i = 0; i < 2; ++i) {
      raise(SIGHUP);
      Await(RepeatedSignalFilter::kAtOnceMs);
      if (Interrupted() || !TakeReload() || TakeReload()) std::exit(1);
    }
    raise(SIGINT);
    std::exit(Interrupted() ? 0 : 2);
  };
  EXPECT_EXIT(hang_up(Hangup::kReloads), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(hang_up(Hangup::kInterrupts), testing::ExitedWithCode(1), "");
}

}  // namespace
}  // namespace pollux::tools
