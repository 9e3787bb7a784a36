#include <gtest/gtest.h>
#include <sched.h>

#include <thread>
#include <utility>
#include <vector>

#include "stack/engine/eal.h"
#include "stack/engine/polling/clock.h"
#include "tests/bench/core_pair.h"
#include "tests/bench/device_load.h"
#include "tests/bench/many_pairs.h"
#include "tests/bench/shared_port.h"
#include "tests/bench/tirpc_load.h"
#include "tests/bench/verbs_end.h"
#include "tests/bench/verbs_load.h"
#include "tests/bench/wires.h"
#include "tools/bench/core_to_core.h"

namespace pollux::bench {
namespace {

class LoadsTest : public ::testing::TestWithParam<Wire> {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(engine::InitEal({.memory_mib = 512}).ok()); }
};

TEST_P(LoadsTest, EveryLoadFinishes) {
  auto wire = OpenWire(GetParam());
  ASSERT_TRUE(wire.ok()) << wire.status();
  engine::Device& a = *wire->first;
  engine::Device& b = *wire->second;
  for (const Work work : {Work::kRaw, Work::kPacket}) {
    const WireEnd x = BareEnd(a), y = BareEnd(b);
    EXPECT_GT(RoundTripNs(x, y, work, 64, 1000), 0);
    EXPECT_GT(StreamPerSecond(x, y, work, 64, 1000), 0);
    EXPECT_GT(EchoPerSecond(x, y, work, 4096, 1000, 128), 0);
  }
  for (const uint32_t window : {1u, 128u}) {
    EXPECT_GT(LeastCallNs(BareEnd(a), BareEnd(b), 1000, window), 0);
  }
  {
    auto pair = VerbsPair::Connect(&a, &b);
    ASSERT_TRUE(pair.ok()) << pair.status();
    tools::Histogram each_ns;
    EXPECT_GT((*pair)->SendRoundTripNs(64, 1000, &each_ns), 0);
    EXPECT_EQ(each_ns.count(), 999u);
    EXPECT_GT((*pair)->PerSecond(IBV_WR_SEND, 64, 1024, 128), 0);
    EXPECT_GT((*pair)->PerSecond(IBV_WR_RDMA_WRITE, 1 << 20, 10, 4), 0);
    EXPECT_GT((*pair)->PerSecond(IBV_WR_RDMA_READ, 1 << 20, 10, 4), 0);
  }
  {
    auto pairs = ManyPairs::Connect(&a, &b, 200);
    ASSERT_TRUE(pairs.ok()) << pairs.status();
    EXPECT_GT((*pairs)->SendsPerSecond(64, 1024, 128, 1), 0);
    EXPECT_GT((*pairs)->SendsPerSecond(64, 1024, 128, 16), 0);
  }
  for (const auto mix : {ManyPairs::Mix::kSmall, ManyPairs::Mix::kBulk, ManyPairs::Mix::kBoth}) {
    auto pairs = ManyPairs::Connect(&a, &b, 11);
    ASSERT_TRUE(pairs.ok()) << pairs.status();
    ManyPairs::Mixed mixed;
    (*pairs)->RunMix(mix, 64, mix == ManyPairs::Mix::kBulk ? 10 : 10'000, &mixed);
    EXPECT_EQ(mixed.latency_ns.count(), mix == ManyPairs::Mix::kBulk ? 0u : 10'000u);
    EXPECT_EQ(mixed.bulk_bytes_per_second > 0, mix != ManyPairs::Mix::kSmall);
  }
  CloseWire(*wire);
}

// The first frames of a measurement are not lost because nobody knows where to.
TEST_P(LoadsTest, TheEndsOfAWireAreResolvedInAdvance) {
  auto wire = OpenWire(GetParam());
  ASSERT_TRUE(wire.ok()) << wire.status();
  engine::Worker& worker = wire->first->worker();
  {
    VerbsEnd near(wire->first.get()), far(wire->second.get());
    for (VerbsEnd* end : {&near, &far}) ASSERT_TRUE(end->Create().ok());
    ASSERT_TRUE(near.Connect(far.ToPeer()).ok());
    ASSERT_TRUE(far.Connect(near.ToPeer()).ok());
    for (int i = 0; i < 100; ++i) near.Post(IBV_WR_SEND, 64, far.ToPeer(), false);
    // The far end is not there yet.
    const engine::Clock clock;
    for (int turn = 0; turn < 30; ++turn) worker.Poll(clock.NowNs());
    EXPECT_EQ(worker.counters().drop(transport::Drop::kUnresolved), 0u);
    EXPECT_GE(worker.counters().sent_pkts, 100u);
  }
  CloseWire(*wire);
}

// What one measurement leaves unacknowledged the next one would send again.
TEST_P(LoadsTest, AMeasurementLeavesNothingUnacknowledged) {
  for (const Threads threads : {Threads::kOne, Threads::kTwo}) {
    auto wire = OpenWire(GetParam());
    ASSERT_TRUE(wire.ok()) << wire.status();
    {
      auto pair = VerbsPair::Connect(wire->first.get(), wire->second.get(), threads);
      ASSERT_TRUE(pair.ok()) << pair.status();
      for (int i = 0; i < 10; ++i) {
        (*pair)->SendRoundTripNs(64, 10);
        EXPECT_TRUE((*pair)->idle());
      }
      (*pair)->PerSecond(IBV_WR_SEND, 64, 1024, 128);
      EXPECT_TRUE((*pair)->idle());
    }
    CloseWire(*wire);
  }
}

// Those of the caller's, whichever they are; the one there is for both.
TEST(CorePairTest, RunsOnUsableCpus) {
  ASSERT_TRUE(engine::InitEal({.memory_mib = 512}).ok());
  std::thread([] {
    std::vector<int> cpus = tools::UsableCpus();
    if (cpus.size() >= 2) {
      int a = -1, b = -1;
      RunOnTwoCores([&] { a = sched_getcpu(); }, [&] { b = sched_getcpu(); });
      EXPECT_EQ(a, cpus[0]);
      EXPECT_EQ(b, cpus[1]);
    }
    ASSERT_TRUE(tools::PinThread(cpus.back()));
    int a = -1, b = -1;
    RunOnTwoCores([&] { a = sched_getcpu(); }, [&] { b = sched_getcpu(); });
    EXPECT_EQ(a, cpus.back());
    EXPECT_EQ(b, cpus.back());
    EXPECT_TRUE(SharedPortSendsPerSecond(2, Hops::kNone, 64, 100, 16).ok());
  }).join();
}

TEST(SharedPortTest, MeasuresWithAndWithoutHandover) {
  ASSERT_TRUE(engine::InitEal({.memory_mib = 512}).ok());
  for (const auto& [workers, hops] :
       {std::pair(1u, Hops::kNone), {2u, Hops::kNone}, {2u, Hops::kEach}}) {
    const auto per_second = SharedPortSendsPerSecond(workers, hops, 64, 1000, 128);
    ASSERT_TRUE(per_second.ok()) << per_second.status();
    EXPECT_GT(*per_second, 0);
  }
}

TEST(VethTest, MeasuresRoundTripsOfTheDeviceAndOfPolluxAlternately) {
  ASSERT_TRUE(engine::InitEal({.memory_mib = 512}).ok());
  auto wire = OpenWire(Wire::kAfPacket);
  if (absl::IsPermissionDenied(wire.status())) GTEST_SKIP() << wire.status().message();
  ASSERT_TRUE(wire.ok()) << wire.status();
  engine::Device& a = *wire->first;
  engine::Device& b = *wire->second;
  for (int turn = 0; turn < 2; ++turn) {
    for (const Work work : {Work::kRaw, Work::kPacket}) {
      const WireEnd x = BareEnd(a), y = BareEnd(b);
      tools::Histogram each_ns;
      EXPECT_GT(RoundTripNs(x, y, work, 64, 100, &each_ns), 0);
      EXPECT_EQ(each_ns.count(), 100u);
    }
    auto pair = VerbsPair::Connect(&a, &b);
    ASSERT_TRUE(pair.ok()) << pair.status();
    EXPECT_GT((*pair)->SendRoundTripNs(64, 100), 0);
  }
  CloseWire(*wire);
}

TEST_P(LoadsTest, MeasuresAnRpcgenProgram) {
  auto wire = OpenWire(GetParam());
  ASSERT_TRUE(wire.ok()) << wire.status();
  for (const auto& times :
       {TimePollux(*std::move(wire), 40), TimeTcp(40), TimeTcp(40, TcpServer::kPolls)}) {
    ASSERT_TRUE(times.ok()) << times.status();
    for (const double seconds : {times->null_s, times->read_4k_s, times->write_4k_s,
                                 times->read_1m_s, times->write_1m_s}) {
      EXPECT_GT(seconds, 0);
    }
    // What travels in chunks stays where the stack has placed it, on both sides.
    EXPECT_EQ(times->client_copies, 0);
    EXPECT_EQ(times->server_copies, 0);
  }
}

TEST(TirpcLoadTest, MeasuresTcpOverVeth) {
  const auto times = TimeTcpByVeth(40);
  if (absl::IsPermissionDenied(times.status())) GTEST_SKIP() << times.status().message();
  ASSERT_TRUE(times.ok()) << times.status();
  for (const double seconds :
       {times->null_s, times->read_4k_s, times->write_4k_s, times->read_1m_s, times->write_1m_s}) {
    EXPECT_GT(seconds, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Wires, LoadsTest, ::testing::Values(Wire::kRing, Wire::kMemif),
                         [](const auto& info) { return WireName(info.param); });

}  // namespace
}  // namespace pollux::bench
