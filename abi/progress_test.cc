#include "abi/progress.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "stack/engine/clock.h"
#include "stack/engine/eal.h"

namespace pollux::abi {
namespace {

class ProgressTest : public testing::Test {
 protected:
  void SetUp() override {
    const absl::Status started = engine::InitEal({.memory_mib = 64});
    ASSERT_TRUE(started.ok()) << started;
  }

  engine::Ownership ownership_;
  Activity activity_;
  std::atomic<uint64_t> turns_{0};
  std::function<Pace::Found(uint64_t)> poll_ = [this](uint64_t) {
    EXPECT_FALSE(ownership_.TryAcquire()) << "polled by who is not the owner";
    ++turns_;
    return Pace::Found{};
  };
};

TEST_F(ProgressTest, DrivesWhatTheProgramAbandons) {
  Progress progress({}, &ownership_, &activity_, poll_);
  while (turns_ < 10) std::this_thread::yield();
}

TEST_F(ProgressTest, LeavesAPollingProgramItsPort) {
  const engine::Clock clock;
  activity_.Drove(clock.NowNs() + 3'600'000'000'000);
  Progress progress({}, &ownership_, &activity_, poll_);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(turns_, 0u);
}

TEST_F(ProgressTest, ServesSleepersOfAProgramThatHasJustPolled) {
  const engine::Clock clock;
  activity_.Drove(clock.NowNs() + 3'600'000'000'000);
  Progress progress({}, &ownership_, &activity_, poll_);
  activity_.Armed();
  while (turns_ < 10) std::this_thread::yield();
  for (uint32_t i = 0; i < Activity::kEmptyPollsOfSleeper; ++i) activity_.FoundNothing();
  EXPECT_FALSE(activity_.ExpectsSleep());
  const uint64_t before = turns_;
  activity_.SleepBegins();
  while (turns_ < before + 10) std::this_thread::yield();
  activity_.SleepEnds();
  EXPECT_FALSE(activity_.ExpectsSleep());
}

TEST_F(ProgressTest, StandsBackForAThreadThatWaits) {
  Progress progress({}, &ownership_, &activity_, poll_);
  for (int i = 0; i < 1000; ++i) {
    ownership_.Acquire();
    ownership_.Release();
  }
  progress.Stop();
  const uint64_t before = turns_;
  EXPECT_TRUE(ownership_.TryAcquire());
  ownership_.Release();
  EXPECT_EQ(turns_, before);
}

TEST_F(ProgressTest, ItsNapEndsWhenTheProgramIsAboutToSleep) {
  constexpr uint64_t kFarTooLongNs = 999'999'999;
  std::atomic<bool> awake{false};
  std::thread sleeper([&] {
    for (int nap = 0; nap < 100; ++nap) activity_.Nap(kFarTooLongNs);
    awake = true;
  });
  while (!awake) {
    activity_.SleepBegins();
    activity_.SleepEnds();
    std::this_thread::yield();
  }
  sleeper.join();
  activity_.Armed();
  activity_.Nap(kFarTooLongNs);
}

}  // namespace
}  // namespace pollux::abi
