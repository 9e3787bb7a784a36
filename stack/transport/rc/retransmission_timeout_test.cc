#include "stack/transport/rc/retransmission_timeout.h"

#include <gtest/gtest.h>

namespace pollux::transport {
namespace {

ibv_qp_attr Asked(uint8_t timeout, uint8_t retries) {
  ibv_qp_attr attr{};
  attr.timeout = timeout;
  attr.retry_cnt = retries;
  return attr;
}

// A round trip of `ns`, measured until its variation is none.
RttEstimator Measured(uint64_t ns) {
  RttEstimator rtt;
  for (uint32_t i = 0; i < 1000; ++i) {
    rtt.Start(Psn(i), 0);
    rtt.Answered(Psn(i + 1), ns);
  }
  return rtt;
}

TEST(RetransmissionTimeoutTest, TheAckTimeoutDoublesAtMostTwice) {
  constexpr uint8_t kCode = 14;  // 67 ms
  const uint64_t asked_ns = wire::TimeoutCodeNs(kCode);
  EXPECT_EQ(RetransmissionTimeout::AckNs(Asked(kCode, 7), 7), asked_ns);
  EXPECT_EQ(RetransmissionTimeout::AckNs(Asked(kCode, 7), 6), 2 * asked_ns);
  EXPECT_EQ(RetransmissionTimeout::AckNs(Asked(kCode, 7), 5), RetransmissionTimeout::kMaxRaisedNs);
  EXPECT_EQ(RetransmissionTimeout::AckNs(Asked(kCode - 1, 7), 5),
            4 * wire::TimeoutCodeNs(kCode - 1));
  EXPECT_EQ(RetransmissionTimeout::AckNs(Asked(kCode - 1, 7), 0),
            4 * wire::TimeoutCodeNs(kCode - 1));
}

TEST(RetransmissionTimeoutTest, ALongAckTimeoutIsNotRaised) {
  constexpr uint8_t kCode = 18;  // 1 s
  EXPECT_EQ(RetransmissionTimeout::AckNs(Asked(kCode, 7), 0), wire::TimeoutCodeNs(kCode));
}

TEST(RetransmissionTimeoutTest, TheProbeTimeIsTheRoundTripButNotBelowItsMinimum) {
  const RttEstimator unknown, quick = Measured(10'000), slow = Measured(2'000'000);
  for (const bool lossy : {false, true}) {
    EXPECT_EQ(RetransmissionTimeout::ProbeNs(unknown, lossy), RetransmissionTimeout::kFirstProbeNs);
    EXPECT_EQ(RetransmissionTimeout::QuietNs(unknown, lossy), RetransmissionTimeout::kFirstProbeNs);
    EXPECT_EQ(RetransmissionTimeout::ProbeNs(slow, lossy),
              slow.most_ns() + (lossy ? 0 : RetransmissionTimeout::kUnaskedAnswerNs));
    EXPECT_EQ(RetransmissionTimeout::QuietNs(slow, lossy), slow.most_ns());
  }
  EXPECT_EQ(RetransmissionTimeout::ProbeNs(quick, false), RetransmissionTimeout::kMinProbeNs);
  EXPECT_EQ(RetransmissionTimeout::ProbeNs(quick, true), RetransmissionTimeout::kLossyProbeNs);
  EXPECT_EQ(RetransmissionTimeout::QuietNs(quick, false), RetransmissionTimeout::kUnaskedAnswerNs);
  EXPECT_EQ(RetransmissionTimeout::QuietNs(quick, true), RetransmissionTimeout::kLossyProbeNs);
}

TEST(RttEstimatorTest, WhatIsSentAgainIsASampleOnceBothAreAnswered) {
  RttEstimator rtt = Measured(10'000);
  const uint64_t before_ns = rtt.smoothed_ns();
  rtt.Start(Psn(5), 0);
  rtt.SentAgain(Psn(5), Psn(6));
  rtt.Answered(Psn(6), 2'000'000);
  EXPECT_EQ(rtt.smoothed_ns(), before_ns);
  rtt.AnsweredAgain(Psn(4));
  EXPECT_EQ(rtt.smoothed_ns(), before_ns);
  rtt.AnsweredAgain(Psn(5));
  EXPECT_GT(rtt.most_ns(), 1'000'000u);
  const uint64_t after_ns = rtt.smoothed_ns();
  rtt.AnsweredAgain(Psn(5));
  EXPECT_EQ(rtt.smoothed_ns(), after_ns);
}

// A responder answers a duplicate with its newest PSN.
TEST(RttEstimatorTest, AResponseToALaterPsnIsASecondOneToo) {
  RttEstimator rtt = Measured(10'000);
  rtt.Start(Psn(5), 0);
  rtt.SentAgain(Psn(5), Psn(8));
  rtt.Answered(Psn(8), 2'000'000);
  rtt.AnsweredAgain(Psn(7));
  EXPECT_GT(rtt.most_ns(), 1'000'000u);
}

TEST(RttEstimatorTest, AStandstillIsASampleOfAFewMillisecondsAtMost) {
  RttEstimator rtt = Measured(10'000);
  rtt.Start(Psn(5), 0);
  rtt.SentAgain(Psn(5), Psn(6));
  rtt.Answered(Psn(6), 1'000'000'000);
  rtt.AnsweredAgain(Psn(5));
  EXPECT_LT(rtt.most_ns(), 3'000'000u);
}

TEST(RttEstimatorTest, OnlyWhatIsSentAgainIsAmbiguous) {
  RttEstimator rtt = Measured(10'000);
  rtt.Start(Psn(5), 0);
  rtt.SentAgain(Psn(3), Psn(5));
  rtt.Answered(Psn(6), 2'000'000);
  EXPECT_GT(rtt.most_ns(), 1'000'000u);
}

}  // namespace
}  // namespace pollux::transport
