#include "tools/common/load.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

namespace pollux::tools {
namespace {

constexpr uint64_t kStartNs = 1'000'000'000;

// A server of one core in virtual time: each operation takes it so long, one after the other; it
// stalls once, for a while.
class Server {
 public:
  Server(const LoadOptions& options, uint64_t service_ns, uint64_t stall_at_ns = UINT64_MAX,
         uint64_t stall_ns = 0)
      : service_ns_(service_ns),
        stall_at_ns_(stall_at_ns),
        stall_ns_(stall_ns),
        load_(
            options, [this] { return now_ns_; }, [this](uint32_t slot) { Take(slot); },
            [this](LoadResult result) { result_ = std::move(result); }) {}

  // Until the load has ended.
  LoadResult Run() {
    while (!result_) {
      load_.Turn();
      now_ns_ += 100;
      while (!queue_.empty() && queue_.front().second <= now_ns_) {
        const uint32_t slot = queue_.front().first;
        queue_.pop_front();
        load_.Ended(slot, failing_ == taken_ ? absl::AbortedError("lost") : absl::OkStatus());
      }
    }
    return *std::move(result_);
  }
  void FailAt(uint64_t operation) { failing_ = operation; }
  size_t most_at_once() const { return most_at_once_; }

 private:
  void Take(uint32_t slot) {
    ++taken_;
    uint64_t from_ns = std::max(now_ns_, free_at_ns_);
    if (from_ns >= stall_at_ns_) from_ns += std::exchange(stall_ns_, 0);
    free_at_ns_ = from_ns + service_ns_;
    queue_.emplace_back(slot, free_at_ns_);
    most_at_once_ = std::max(most_at_once_, queue_.size());
  }

  uint64_t now_ns_ = kStartNs, free_at_ns_ = 0;
  const uint64_t service_ns_, stall_at_ns_;
  uint64_t stall_ns_;
  uint64_t taken_ = 0, failing_ = UINT64_MAX;
  size_t most_at_once_ = 0;
  std::deque<std::pair<uint32_t, uint64_t>> queue_;
  std::optional<LoadResult> result_;
  Load load_;
};

TEST(LoadTest, ClosedLoopKeepsItsWindowFull) {
  Server server({.count = 1000, .window = 8}, 1'000);
  const LoadResult result = server.Run();
  EXPECT_TRUE(result.status.ok());
  EXPECT_EQ(result.operations, 1000u);
  EXPECT_EQ(result.latency_ns->count(), 1000u);
  EXPECT_EQ(server.most_at_once(), 8u);
  EXPECT_NEAR(static_cast<double>(result.latency_ns->Percentile(0.5)), 8'000, 250);
  EXPECT_NEAR(result.PerSecond(), 1e6, 2e4);
}

TEST(LoadTest, OpenLoopKeepsItsRate) {
  Server server({.count = 1000, .window = 8, .per_second = 100'000}, 1'000);
  const LoadResult result = server.Run();
  EXPECT_EQ(result.operations, 1000u);
  EXPECT_EQ(server.most_at_once(), 1u);
  EXPECT_NEAR(result.PerSecond(), 1e5, 1e3);
  EXPECT_LE(result.latency_ns->max(), 1'200u);
}

// A stall of 1 ms at 100,000 a second meets a hundred operations, all but eight of which are not
// even begun meanwhile. The first waits for all of it, each later one 9 us less.
TEST(LoadTest, OpenLoopCountsTheDelayOfOperationsThatWaitForTheWindow) {
  constexpr uint64_t kStallNs = 1'000'000;
  const uint64_t at_ns = kStartNs + 5'000'000;
  Server open({.count = 1000, .window = 8, .per_second = 100'000}, 1'000, at_ns, kStallNs);
  const LoadResult result = open.Run();
  EXPECT_EQ(result.operations, 1000u);
  EXPECT_GE(result.latency_ns->max(), kStallNs);
  uint64_t slow = 0;
  result.latency_ns->ForEach([&](uint64_t bound, uint64_t count) {
    if (bound > kStallNs / 2) slow += count;
  });
  EXPECT_NEAR(static_cast<double>(slow), 56, 4);

  Server closed({.count = 1000, .window = 8}, 1'000, kStartNs + 500'000, kStallNs);
  uint64_t slow_closed = 0;
  closed.Run().latency_ns->ForEach([&](uint64_t bound, uint64_t count) {
    if (bound > kStallNs / 2) slow_closed += count;
  });
  EXPECT_LE(slow_closed, 8u);
}

// A stall that outlasts the limit of time: the 300 operations that were due before it wait for the
// window, and are not forgotten.
TEST(LoadTest, OpenLoopCountsOperationsDueBeforeItsLimit) {
  constexpr uint64_t kLimitNs = 10'000'000, kStallNs = 5'000'000;
  Server server({.count = 1'000'000, .window = 8, .limit_ns = kLimitNs, .per_second = 100'000},
                1'000, kStartNs + 7'000'000, kStallNs);
  const LoadResult result = server.Run();
  EXPECT_NEAR(static_cast<double>(result.operations), 1'000, 2);
  uint64_t slow = 0;
  result.latency_ns->ForEach([&](uint64_t bound, uint64_t count) {
    if (bound > kStallNs / 4) slow += count;
  });
  EXPECT_GE(slow, 250u);
}

TEST(LoadTest, EndsAtTheTimeLimit) {
  Server server({.count = 1'000'000, .window = 2, .limit_ns = 1'000'000}, 1'000);
  const LoadResult result = server.Run();
  EXPECT_TRUE(result.status.ok());
  EXPECT_NEAR(static_cast<double>(result.operations), 1'000, 10);
}

TEST(LoadTest, TheFirstFailureEndsTheLoadAfterPendingOperations) {
  Server server({.count = 1000, .window = 4}, 1'000);
  server.FailAt(100);
  const LoadResult result = server.Run();
  EXPECT_EQ(result.status.message(), "lost");
  EXPECT_LT(result.operations, 110u);
}

TEST(LoadTest, OperationsThatCompleteImmediatelyDoNotRecurse) {
  uint64_t now_ns = 0;
  bool done = false;
  Load* self = nullptr;
  Load load(
      {.count = 1'000'000, .window = 1}, [&] { return ++now_ns; },
      [&](uint32_t slot) { self->Ended(slot, absl::OkStatus()); },
      [&](LoadResult result) {
        done = true;
        EXPECT_EQ(result.operations, 1'000'000u);
      });
  self = &load;
  EXPECT_TRUE(load.Turn());
  EXPECT_TRUE(done);
  EXPECT_FALSE(load.Turn());
}

TEST(LoadTest, StopBeforeTheStartEndsTheLoad) {
  std::optional<LoadResult> result;
  Load load(
      {.count = 5}, [] { return uint64_t{1}; }, [](uint32_t) { FAIL(); },
      [&](LoadResult ended) { result = std::move(ended); });
  load.Stop(absl::CancelledError("interrupted"));
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->status.code(), absl::StatusCode::kCancelled);
}

// A load that goes on beside another one, until that has ended, has the port alone after that.
TEST(LoadTest, OperationsCompletedAfterStopDoNotCount) {
  std::optional<LoadResult> result;
  uint64_t now_ns = kStartNs;
  Load load(
      {.count = 100, .window = 4}, [&] { return now_ns; }, [](uint32_t) {},
      [&](LoadResult ended) { result = std::move(ended); });
  load.Turn();
  now_ns += 1'000;
  load.Ended(0, absl::OkStatus());
  load.Ended(1, absl::OkStatus());
  now_ns += 500;
  load.Stop(absl::OkStatus());
  now_ns += 8'500;
  for (uint32_t slot = 0; slot < 4; ++slot) {
    EXPECT_FALSE(result.has_value()) << "it is under way";
    load.Ended(slot, absl::OkStatus());
  }
  ASSERT_TRUE(result.has_value());
  EXPECT_TRUE(result->status.ok());
  EXPECT_EQ(result->operations, 2u);
  EXPECT_EQ(result->elapsed_ns, 1'000u);
  EXPECT_EQ(result->latency_ns->count(), 2u);
  EXPECT_EQ(result->PerSecond(), 2e6);
}

TEST(LoadTest, AFailureAfterStopIsReported) {
  std::optional<LoadResult> result;
  Load load(
      {.count = 5}, [] { return uint64_t{1}; }, [](uint32_t) {},
      [&](LoadResult ended) { result = std::move(ended); });
  load.Turn();
  load.Stop(absl::OkStatus());
  load.Ended(0, absl::AbortedError("lost"));
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->status.message(), "lost");
}

// One that was done sooner does not count as if it had gone on at its pace.
TEST(LoadTest, CombinedLoadsLastAsLongAsTheLongest) {
  std::vector<LoadResult> loads(2);
  for (LoadResult& one : loads) {
    one.operations = 1000;
    one.latency_ns->Record(5);
  }
  loads[0].elapsed_ns = 1'000'000'000;
  loads[1].elapsed_ns = 4'000'000'000;
  EXPECT_EQ(Together(loads).PerSecond(), 500);
  EXPECT_EQ(Together(loads).latency_ns->count(), 2u);
  EXPECT_TRUE(Together(loads).status.ok());
  loads[1].status = absl::AbortedError("lost");
  EXPECT_EQ(Together(loads).status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Together({}).PerSecond(), 0);
}

}  // namespace
}  // namespace pollux::tools
