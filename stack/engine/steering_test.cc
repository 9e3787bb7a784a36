#include "stack/io/steering/steering.h"

#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stack/engine/eal.h"
#include "stack/engine/frames_for_test.h"

namespace pollux::engine {
namespace {

constexpr unsigned kPoolFrames = 4095;
constexpr QpnLayout kLayout;

using Frames = std::vector<Bytes>;

// A queue of the port: hands in what a test has put there, and takes as much as there is room for.
class FakeQueue : public io::Link {
 public:
  uint16_t Receive(rte_mbuf** frames, uint16_t capacity, uint64_t) override {
    uint16_t count = 0;
    for (; count < capacity && !incoming.empty(); ++count) {
      frames[count] = incoming.front();
      incoming.pop_front();
    }
    return count;
  }
  uint16_t Send(rte_mbuf** frames, uint16_t count, uint64_t) override {
    uint16_t taken = 0;
    for (; taken < count && room > 0; ++taken, --room) {
      sent.push_back(BytesOf(frames[taken]));
      sent_from.push_back(frames[taken]->pool);
      rte_pktmbuf_free(frames[taken]);
    }
    return taken;
  }
  std::deque<rte_mbuf*> incoming;
  Frames sent;
  std::vector<const rte_mempool*> sent_from;
  unsigned room = 1000;
};

class SteeringTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kMax = 3;

  static void SetUpTestSuite() {
    ASSERT_TRUE(InitEal().ok());
    for (uint32_t i = 0; i < kMax; ++i) {
      pools_[i] = rte_pktmbuf_pool_create(("steered" + std::to_string(i)).c_str(), kPoolFrames, 0,
                                          0, 512, SOCKET_ID_ANY);
      ASSERT_NE(pools_[i], nullptr);
    }
  }
  void Start(uint32_t workers, uint32_t queues) {
    rings_ = io::SteeringRings::Create(workers, queues).value();
    const io::RxClassifier classifier{.workers = workers};
    for (uint32_t i = 0; i < workers; ++i) {
      steering_[i].emplace(classifier, i, i < queues ? &queues_[i] : nullptr, pools_[i],
                           rings_.get());
    }
  }
  void TearDown() override {
    for (auto& steering : steering_) steering.reset();
    if (rings_ != nullptr) rings_->Clear();
    for (rte_mempool* pool : pools_) EXPECT_EQ(rte_mempool_in_use_count(pool), 0u) << pool->name;
  }
  void Arrive(uint32_t queue, const Bytes& bytes) {
    rte_mbuf* frame = MbufOf(bytes, pools_[queue]);
    ASSERT_NE(frame, nullptr);
    queues_[queue].incoming.push_back(frame);
  }
  static Bytes For(uint32_t worker, uint8_t mark = 0) {
    return RoceFrame(kLayout.Make(worker, 1, 5), {}, {mark, 0, 0, 0});
  }
  // What a worker gets in one turn; given back as a worker does.
  Frames Poll(uint32_t worker) {
    rte_mbuf* frames[io::Steering::kBurst];
    const uint16_t count = steering_[worker]->Receive(frames, io::Steering::kBurst, 0);
    Frames got;
    for (uint16_t i = 0; i < count; ++i) got.push_back(BytesOf(frames[i]));
    steering_[worker]->Free(frames, count);
    return got;
  }
  unsigned InUse(uint32_t worker) { return rte_mempool_in_use_count(pools_[worker]); }

  static inline rte_mempool* pools_[kMax] = {};
  FakeQueue queues_[kMax];
  std::unique_ptr<io::SteeringRings> rings_;
  std::optional<io::Steering> steering_[kMax];
};

TEST_F(SteeringTest, EachWorkerGetsItsFramesAndBuffersReturnToTheirPool) {
  Start(3, 3);
  for (uint32_t i = 0; i < 3; ++i) Arrive(0, For(i));
  EXPECT_EQ(Poll(0), Frames{For(0)});
  EXPECT_TRUE(steering_[0]->moved());
  EXPECT_EQ(Poll(1), Frames{For(1)});
  EXPECT_EQ(Poll(2), Frames{For(2)});
  EXPECT_EQ(InUse(0), 2u) << "on their way back";
  EXPECT_TRUE(Poll(0).empty());
  EXPECT_FALSE(steering_[0]->moved());
  EXPECT_EQ(InUse(0), 0u);
  const io::SteeringCounters& first = steering_[0]->counters();
  EXPECT_EQ(first.received, 3u);
  EXPECT_EQ(first.kept, 1u);
  EXPECT_EQ(first.handed_over, 2u);
  EXPECT_EQ(steering_[1]->counters().by_ring, 1u);
  EXPECT_EQ(steering_[1]->counters().received, 0u);
}

TEST_F(SteeringTest, FramesOfNoWorkerStayWithTheReceiver) {
  Start(2, 2);
  const Bytes stray = RoceFrame(kLayout.Make(2, 1, 5));
  Arrive(1, stray);
  EXPECT_EQ(Poll(1), Frames{stray});
  EXPECT_EQ(steering_[1]->counters().handed_over, 0u);
}

TEST_F(SteeringTest, DatagramsToAGroupReachEveryWorker) {
  Start(3, 3);
  const Bytes group = RoceFrame(kMulticastQpn);
  Arrive(1, group);
  for (const uint32_t worker : {1u, 0u, 2u}) EXPECT_EQ(Poll(worker), Frames{group});
  EXPECT_TRUE(Poll(1).empty());
  EXPECT_EQ(InUse(1), 0u);
  EXPECT_EQ(steering_[1]->counters().handed_over, 2u);
}

// An interface frees what it is given when it likes, so that it must be of its own worker's pool.
TEST_F(SteeringTest, KeptFramesAreCopiedToThePoolOfTheWorker) {
  Start(2, 2);
  Arrive(0, OtherFrame(wire::kEtherTypeArp));
  Arrive(1, IpFrame(wire::kIpProtocolTcp, Bytes(20)));
  rte_mbuf* frames[io::Steering::kBurst];
  ASSERT_EQ(steering_[0]->Receive(frames, io::Steering::kBurst, 0), 1);
  EXPECT_EQ(frames[0]->pool, pools_[0]);
  rte_pktmbuf_free(frames[0]);
  ASSERT_EQ(steering_[1]->Receive(frames, io::Steering::kBurst, 0), 1) << "ARP alone";
  EXPECT_EQ(frames[0]->pool, pools_[1]);
  EXPECT_EQ(BytesOf(frames[0]), OtherFrame(wire::kEtherTypeArp));
  rte_pktmbuf_free(frames[0]);
  ASSERT_EQ(steering_[0]->Receive(frames, io::Steering::kBurst, 0), 1) << "TCP";
  EXPECT_EQ(frames[0]->pool, pools_[0]);
  rte_pktmbuf_free(frames[0]);
  EXPECT_TRUE(Poll(1).empty());
  EXPECT_EQ(InUse(0) + InUse(1), 0u);
}

// The bound, and one past it; and all that was under way fits into the ring back.
TEST_F(SteeringTest, FramesForAFullRingAreDroppedAndCounted) {
  Start(2, 2);
  const uint32_t holds = rings_->size() - 1;
  for (uint32_t i = 0; i < holds + 1; ++i) Arrive(0, For(1, static_cast<uint8_t>(i)));
  for (uint32_t i = 0; i <= holds / io::Steering::kBurst; ++i) EXPECT_TRUE(Poll(0).empty());
  EXPECT_EQ(steering_[0]->counters().handed_over, holds);
  EXPECT_EQ(steering_[0]->counters().ring_full, 1u);
  EXPECT_EQ(InUse(0), holds);
  uint32_t got = 0;
  for (auto burst = Poll(1); !burst.empty(); burst = Poll(1)) {
    for (const Bytes& frame : burst) EXPECT_EQ(frame, For(1, static_cast<uint8_t>(got++)));
  }
  EXPECT_EQ(got, holds);
  EXPECT_TRUE(Poll(0).empty());
  EXPECT_EQ(InUse(0), 0u);
}

TEST_F(SteeringTest, RingsAndPortShareABurst) {
  Start(2, 2);
  for (int i = 0; i < 64; ++i) Arrive(0, For(1));
  Poll(0);
  Poll(0);
  for (int i = 0; i < 64; ++i) Arrive(1, For(1, 1));
  const Frames got = Poll(1);
  EXPECT_EQ(got.size(), 32u);
  EXPECT_EQ(std::ranges::count(got, For(1)), 16);
  EXPECT_EQ(std::ranges::count(got, For(1, 1)), 16);
  while (!Poll(1).empty()) continue;
  Poll(0);
}

TEST_F(SteeringTest, AWorkerWithoutAQueueUsesRings) {
  Start(3, 2);
  Arrive(1, For(2));
  EXPECT_TRUE(Poll(1).empty());
  EXPECT_EQ(Poll(2), Frames{For(2)});
  // Worker 2 % 2 sends for it.
  rte_mbuf* frames[] = {MbufOf(For(0), pools_[2]), MbufOf(For(1), pools_[2])};
  EXPECT_EQ(steering_[2]->Send(frames, 2, 0), 2);
  Poll(0);
  EXPECT_EQ(queues_[0].sent, (Frames{For(0), For(1)}));
  EXPECT_EQ(queues_[0].sent_from, (std::vector<const rte_mempool*>(2, pools_[0])));
  EXPECT_TRUE(queues_[1].sent.empty());
  EXPECT_EQ(steering_[0]->counters().carried, 2u);
  EXPECT_EQ(steering_[2]->counters().sent_by_ring, 2u);
  EXPECT_EQ(InUse(2), 2u) << "on their way back";
  Poll(2);
  Poll(1);
  EXPECT_EQ(InUse(0) + InUse(1) + InUse(2), 0u);
}

TEST_F(SteeringTest, FramesRefusedByThePortWaitInOrder) {
  Start(2, 1);
  queues_[0].room = 1;
  const uint32_t holds = rings_->size() - 1;
  uint32_t sent = 0;
  for (uint16_t taken = 1; taken == 1; sent += taken) {
    rte_mbuf* frame = MbufOf(For(0, static_cast<uint8_t>(sent)), pools_[1]);
    ASSERT_NE(frame, nullptr);
    taken = steering_[1]->Send(&frame, 1, 0);
    if (taken == 0) rte_pktmbuf_free(frame);
  }
  EXPECT_EQ(sent, holds) << "one past that is refused, and stays its sender's";
  Poll(0);
  Poll(0);
  EXPECT_EQ(queues_[0].sent.size(), 1u);
  EXPECT_EQ(InUse(0), io::Steering::kBurst - 1u) << "no more is taken from the ring meanwhile";
  queues_[0].room = 2 * holds;
  while (queues_[0].sent.size() < holds) {
    const size_t before = queues_[0].sent.size();
    Poll(0);
    ASSERT_GT(queues_[0].sent.size(), before);
  }
  for (uint32_t i = 0; i < holds; ++i) {
    EXPECT_EQ(queues_[0].sent[i], For(0, static_cast<uint8_t>(i)));
  }
  Poll(1);
  EXPECT_EQ(InUse(1), 0u);
}

TEST_F(SteeringTest, CopiesWithoutABufferAreDroppedAndCounted) {
  Start(2, 1);
  Arrive(0, RoceFrame(kMulticastQpn));
  Arrive(0, OtherFrame(wire::kEtherTypeArp));
  rte_mbuf* frame = MbufOf(For(0), pools_[1]);
  ASSERT_EQ(steering_[1]->Send(&frame, 1, 0), 1);
  std::vector<rte_mbuf*> hoard;
  for (rte_mbuf* more; (more = rte_pktmbuf_alloc(pools_[0])) != nullptr;) hoard.push_back(more);
  rte_mbuf* frames[io::Steering::kBurst];
  ASSERT_EQ(steering_[0]->Receive(frames, io::Steering::kBurst, 0), 2) << "its own";
  EXPECT_EQ(steering_[0]->counters().no_buffer, 3u);
  rte_pktmbuf_free_bulk(frames, 2);
  rte_pktmbuf_free_bulk(hoard.data(), static_cast<unsigned>(hoard.size()));
  hoard.clear();
  EXPECT_TRUE(Poll(1).empty());
  // And where one that is handed over is to be kept.
  Arrive(0, OtherFrame(wire::kEtherTypeArp));
  ASSERT_EQ(steering_[0]->Receive(frames, io::Steering::kBurst, 0), 1);
  rte_pktmbuf_free(frames[0]);
  for (rte_mbuf* more; (more = rte_pktmbuf_alloc(pools_[1])) != nullptr;) hoard.push_back(more);
  EXPECT_TRUE(Poll(1).empty());
  EXPECT_EQ(steering_[1]->counters().no_buffer, 1u);
  rte_pktmbuf_free_bulk(hoard.data(), static_cast<unsigned>(hoard.size()));
  Poll(0);
}

TEST_F(SteeringTest, SortedFramesAreNotHandedOver) {
  Start(3, 3);
  for (uint32_t i = 0; i < 30; ++i) {
    Arrive(static_cast<uint16_t>(i % 3), RoceFrame(kLayout.Make(i % 3, i, 2 + i)));
  }
  for (uint32_t worker = 0; worker < 3; ++worker) {
    EXPECT_EQ(Poll(worker).size(), 10u);
    EXPECT_EQ(steering_[worker]->counters().kept, 10u);
    EXPECT_EQ(steering_[worker]->counters().handed_over, 0u);
    EXPECT_EQ(steering_[worker]->counters().by_ring, 0u);
  }
}

}  // namespace
}  // namespace pollux::engine
