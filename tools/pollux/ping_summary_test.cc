#include "tools/pollux/ping_summary.h"

#include <gtest/gtest.h>

namespace pollux::tools {
namespace {

TEST(PingSummaryTest, EachAnswerIsOneLine) {
  PingSummary summary(std::nullopt);
  summary.Sent();
  summary.Sent();
  EXPECT_EQ(summary.Answered(123'400, "192.0.2.1"),
            "answer from 192.0.2.1: seq=2 time=0.1234 ms\n");
}

TEST(PingSummaryTest, StatisticsLookLikeThoseOfPing) {
  PingSummary summary(std::nullopt);
  for (const uint64_t us : {1'000, 2'000, 3'000}) {
    summary.Sent();
    summary.Answered(us * 1'000, "s");
  }
  summary.Sent();
  EXPECT_EQ(summary.Text("s", 4'000'000'000),
            "--- s pollux ping statistics ---\n"
            "4 calls sent, 3 answered, 25% lost, time 4000 ms\n"
            "rtt min/avg/max/mdev = 1.0000/2.0000/3.0000/0.8165 ms\n");
  const auto json = summary.Json();
  EXPECT_EQ(json["calls"], 3u);
  EXPECT_EQ(json["sent"], 4u);
  EXPECT_EQ(json["latency_us"]["min"], 1'000);
  EXPECT_EQ(json["latency_us"]["avg"], 2'000);
  EXPECT_NEAR(json["latency_us"]["mdev"].get<double>(), 816.5, 0.1);
}

TEST(PingSummaryTest, WithoutAnswersTheSummaryHasNoTimes) {
  PingSummary summary(1e3);
  EXPECT_TRUE(absl::IsDeadlineExceeded(summary.Verdict(0)));
  summary.Sent();
  EXPECT_EQ(summary.Text("s", 0),
            "--- s pollux ping statistics ---\n1 calls sent, 0 answered, 100% lost, time 0 ms\n");
  EXPECT_EQ(summary.Json()["latency_us"]["min"], 0);
}

TEST(PingSummaryTest, AnAnswerAboveTheThresholdFails) {
  PingSummary summary(20e3);
  summary.Sent();
  summary.Answered(20'000, "s");
  EXPECT_TRUE(summary.Verdict(0).ok());
  summary.Sent();
  summary.Answered(20'001, "s");
  EXPECT_TRUE(absl::IsFailedPrecondition(summary.Verdict(0)));
  EXPECT_EQ(summary.Verdict(2).message(),
            "1 of 2 calls took longer than 20.000us, the longest 20.001us");
}

TEST(PingSummaryTest, AnUnansweredCallAboveTheThresholdFails) {
  PingSummary summary(1e6);
  summary.Sent();
  summary.Answered(10'000, "s");
  summary.Sent();
  summary.Unanswered(1'000'000);
  EXPECT_TRUE(summary.Verdict(0).ok());
  summary.Unanswered(3'000'000'000);
  EXPECT_TRUE(absl::IsFailedPrecondition(summary.Verdict(0)));
  EXPECT_EQ(summary.Verdict(0).message(),
            "1 of 2 calls took longer than 1.000ms, the longest 3.000s without an answer");
  EXPECT_EQ(summary.Json()["too_slow"], 1u);
  EXPECT_EQ(summary.answers(), 1u);
}

TEST(PingSummaryTest, FewerAnswersThanRequestedFail) {
  PingSummary summary(std::nullopt);
  summary.Sent();
  summary.Answered(5, "s");
  EXPECT_TRUE(summary.Verdict(1).ok());
  EXPECT_EQ(summary.Verdict(2).message(), "1 of 2 calls were answered in time");
}

}  // namespace
}  // namespace pollux::tools
