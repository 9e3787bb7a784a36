#include "stack/io/link/impairment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>

#include "stack/io/eal_for_test.h"

namespace pollux::io {
namespace {

// Keeps what is sent, hands out what is put in.
class FakeLink : public Link {
 public:
  ~FakeLink() override {
    for (rte_mbuf* frame : arriving) rte_pktmbuf_free(frame);
    for (rte_mbuf* frame : sent) rte_pktmbuf_free(frame);
  }
  uint16_t Receive(rte_mbuf** frames, uint16_t capacity, uint64_t) override {
    uint16_t n = 0;
    while (n < capacity && !arriving.empty()) {
      frames[n++] = arriving.front();
      arriving.pop_front();
    }
    return n;
  }
  uint16_t Send(rte_mbuf** frames, uint16_t count, uint64_t) override {
    uint16_t n = 0;
    while (n < count && sent.size() < capacity) sent.push_back(frames[n++]);
    return n;
  }
  std::deque<rte_mbuf*> arriving;
  std::deque<rte_mbuf*> sent;
  size_t capacity = SIZE_MAX;
};

// An IPv4 frame by its EtherType, numbered.
rte_mbuf* NumberedFrame(uint16_t number, uint16_t ether_type = 0x0800) {
  std::vector<uint8_t> bytes(100, 0x5A);
  bytes[12] = static_cast<uint8_t>(ether_type >> 8);
  bytes[13] = static_cast<uint8_t>(ether_type);
  bytes[0] = static_cast<uint8_t>(number >> 8);
  bytes[1] = static_cast<uint8_t>(number);
  return FrameForTest(bytes);
}

int Number(const rte_mbuf* frame) {
  const std::vector<uint8_t> bytes = BytesOf(frame);
  return bytes[0] << 8 | bytes[1];
}

std::vector<int> SendAll(Impairment& impairment, FakeLink& link, int count) {
  for (int i = 0; i < count; ++i) {
    rte_mbuf* frame = NumberedFrame(static_cast<uint16_t>(i));
    EXPECT_EQ(impairment.Send(&frame, 1, i), 1);
  }
  rte_mbuf* none[1];
  EXPECT_EQ(impairment.Receive(none, 1, 1'000'000'000), 0);  // what is held falls due
  std::vector<int> numbers;
  for (rte_mbuf* frame : link.sent) {
    numbers.push_back(Number(frame));
    rte_pktmbuf_free(frame);
  }
  link.sent.clear();
  return numbers;
}

TEST(ImpairmentOptions, ParsesEveryKeyInAnyOrder) {
  absl::StatusOr<ImpairmentOptions> options =
      ImpairmentOptions::Parse("seed=18446744073709551615,corrupt=1,reorder=0.5,dup=0,loss=0.01");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->seed, UINT64_MAX);
  EXPECT_EQ(options->corrupt, 1);
  EXPECT_EQ(options->reorder, 0.5);
  EXPECT_EQ(options->duplicate, 0);
  EXPECT_EQ(options->loss, 0.01);
  EXPECT_TRUE(options->Any());
  EXPECT_FALSE(ImpairmentOptions::Parse("seed=3")->Any());
}

TEST(ImpairmentOptions, RefusesInvalidOptions) {
  for (const char* text : {"", "loss", "loss=", "loss=1.001", "loss=-0.1", "loss=nan", "loss=x",
                           "delay=1", "seed=-1", "loss=0.1,loss=0.2", "loss=0.1,"}) {
    const absl::Status status = ImpairmentOptions::Parse(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_EQ(ImpairmentOptions::Parse("loss=2").status().message(),
            "impairment loss=2: not a probability from 0 to 1");
}

TEST(Impairment, WithoutOptionsEverythingPasses) {
  FakeLink link;
  Impairment impairment(&link, {}, PoolForTest());
  const std::vector<int> numbers = SendAll(impairment, link, 500);
  ASSERT_EQ(numbers.size(), 500u);
  for (int i = 0; i < 500; ++i) EXPECT_EQ(numbers[i], i);
  EXPECT_EQ(FramesInUse(), 0u);
}

TEST(Impairment, LosesTheGivenShare) {
  FakeLink link;
  Impairment impairment(&link, {.loss = 0.1, .seed = 7}, PoolForTest());
  int arrived = 0;
  for (int round = 0; round < 20; ++round) {
    arrived += static_cast<int>(SendAll(impairment, link, 500).size());
  }
  const uint64_t lost = impairment.send_counters().lost;
  EXPECT_EQ(arrived + lost, 10'000u);
  EXPECT_NEAR(static_cast<double>(lost), 1000, 150);  // five standard deviations
  EXPECT_EQ(FramesInUse(), 0u);
}

TEST(Impairment, LossOfOnePassesNothing) {
  FakeLink link;
  Impairment impairment(&link, {.loss = 1}, PoolForTest());
  EXPECT_TRUE(SendAll(impairment, link, 200).empty());
  EXPECT_EQ(impairment.send_counters().lost, 200u);
}

TEST(Impairment, DuplicatesAreCopies) {
  FakeLink link;
  Impairment impairment(&link, {.duplicate = 1}, PoolForTest());
  rte_mbuf* frame = NumberedFrame(9);
  ASSERT_EQ(impairment.Send(&frame, 1, 0), 1);
  ASSERT_EQ(link.sent.size(), 2u);
  EXPECT_EQ(BytesOf(link.sent[0]), BytesOf(link.sent[1]));
  EXPECT_NE(rte_pktmbuf_mtod(link.sent[0], void*), rte_pktmbuf_mtod(link.sent[1], void*));
  EXPECT_EQ(impairment.send_counters().duplicated, 1u);
}

TEST(Impairment, ReorderedFramesArriveOnceAndSoon) {
  FakeLink link;
  Impairment impairment(&link, {.reorder = 0.2, .seed = 3}, PoolForTest());
  const std::vector<int> numbers = SendAll(impairment, link, 400);
  EXPECT_EQ(numbers.size(), 400u);
  EXPECT_EQ(std::set<int>(numbers.begin(), numbers.end()).size(), 400u);
  EXPECT_FALSE(std::is_sorted(numbers.begin(), numbers.end()));
  EXPECT_GT(impairment.send_counters().reordered, 40u);
  for (int i = 0; i < 400; ++i) EXPECT_LE(std::abs(numbers[i] - i), 64) << i;
}

TEST(Impairment, AHeldFrameIsSentAfterTheHoldTime) {
  FakeLink link;
  Impairment impairment(&link, {.reorder = 1}, PoolForTest());
  rte_mbuf* frame = NumberedFrame(1);
  ASSERT_EQ(impairment.Send(&frame, 1, 1000), 1);
  EXPECT_EQ(impairment.deadline_ns(), 1000 + Impairment::kMaxHoldNs);
  rte_mbuf* none[1];
  EXPECT_EQ(impairment.Receive(none, 1, 999 + Impairment::kMaxHoldNs), 0);
  EXPECT_TRUE(link.sent.empty());
  EXPECT_EQ(impairment.Receive(none, 1, 1000 + Impairment::kMaxHoldNs), 0);
  EXPECT_EQ(link.sent.size(), 1u);
  EXPECT_EQ(impairment.deadline_ns(), UINT64_MAX);
}

TEST(Impairment, CorruptsACopyPastTheEthernetHeader) {
  FakeLink link;
  Impairment impairment(&link, {.corrupt = 1}, PoolForTest());
  for (int i = 0; i < 200; ++i) {
    rte_mbuf* original = NumberedFrame(5);
    rte_mbuf* keep = original;
    rte_mbuf_refcnt_update(keep, 1);  // as a requester that keeps it for retransmission
    ASSERT_EQ(impairment.Send(&original, 1, 0), 1);
    const std::vector<uint8_t> before = BytesOf(keep);
    const std::vector<uint8_t> after = BytesOf(link.sent.back());
    rte_pktmbuf_free(keep);
    ASSERT_EQ(before.size(), after.size());
    int changed_bytes = 0;
    for (size_t j = 0; j < before.size(); ++j) {
      if (before[j] == after[j]) continue;
      ++changed_bytes;
      EXPECT_GE(j, 14u);
    }
    EXPECT_EQ(changed_bytes, 1);
    EXPECT_EQ(before[50], 0x5A);
  }
  EXPECT_EQ(impairment.send_counters().corrupted, 200u);
}

TEST(Impairment, LeavesArpIntact) {
  FakeLink link;
  Impairment impairment(&link, {.corrupt = 1}, PoolForTest());
  rte_mbuf* frame = NumberedFrame(5, 0x0806);
  const std::vector<uint8_t> before = BytesOf(frame);
  ASSERT_EQ(impairment.Send(&frame, 1, 0), 1);
  EXPECT_EQ(BytesOf(link.sent[0]), before);
}

TEST(Impairment, ImpairsReceivedFrames) {
  FakeLink link;
  Impairment impairment(&link, {.loss = 0.2, .duplicate = 0.2, .reorder = 0.2, .seed = 11},
                        PoolForTest());
  for (uint16_t i = 0; i < 300; ++i) link.arriving.push_back(NumberedFrame(i));
  uint64_t got = 0;
  rte_mbuf* frames[8];
  for (uint64_t now = 0; now < 200; ++now) {
    const uint16_t n = impairment.Receive(frames, 8, now * 10'000);
    got += n;
    for (uint16_t i = 0; i < n; ++i) rte_pktmbuf_free(frames[i]);
  }
  const ImpairmentCounters& counters = impairment.receive_counters();
  EXPECT_EQ(got, 300 - counters.lost + counters.duplicated);
  EXPECT_EQ(got, counters.passed);
  EXPECT_GT(counters.lost, 0u);
  EXPECT_GT(counters.duplicated, 0u);
  EXPECT_GT(counters.reordered, 0u);
  EXPECT_EQ(FramesInUse(), 0u);
}

TEST(Impairment, RefusesFramesWhenTheLinkIsFull) {
  FakeLink link;
  link.capacity = 0;
  Impairment impairment(&link, {.duplicate = 1}, PoolForTest());
  int taken = 0;
  while (true) {
    rte_mbuf* frame = NumberedFrame(1);
    if (impairment.Send(&frame, 1, 0) == 0) {
      rte_pktmbuf_free(frame);
      break;
    }
    ++taken;
  }
  EXPECT_EQ(taken, Impairment::kQueueCapacity / 2);
  link.capacity = SIZE_MAX;
  rte_mbuf* none[1];
  EXPECT_EQ(impairment.Receive(none, 1, 1), 0);
  EXPECT_EQ(link.sent.size(), Impairment::kQueueCapacity);
}

TEST(Impairment, TheSameSeedGivesTheSameImpairments) {
  const ImpairmentOptions options{
      .loss = 0.1, .duplicate = 0.1, .reorder = 0.1, .corrupt = 0.1, .seed = 42};
  std::vector<std::vector<int>> runs;
  for (int run = 0; run < 2; ++run) {
    FakeLink link;
    Impairment impairment(&link, options, PoolForTest());
    runs.push_back(SendAll(impairment, link, 300));
  }
  EXPECT_EQ(runs[0], runs[1]);
}

TEST(Impairment, DestructionFreesHeldFrames) {
  {
    FakeLink link;
    link.capacity = 0;
    Impairment impairment(&link, {.duplicate = 0.5, .reorder = 0.5}, PoolForTest());
    for (uint16_t i = 0; i < 50; ++i) {
      rte_mbuf* frame = NumberedFrame(i);
      ASSERT_EQ(impairment.Send(&frame, 1, 0), 1);
    }
    EXPECT_GE(FramesInUse(), 50u);
  }
  EXPECT_EQ(FramesInUse(), 0u);
}

}  // namespace
}  // namespace pollux::io
