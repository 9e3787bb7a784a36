#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "stack/engine/eal.h"
#include "stack/engine/loop/worker.h"

namespace pollux::engine {
namespace {

class SilentLink : public io::Link {
 public:
  uint16_t Receive(rte_mbuf**, uint16_t, uint64_t) override { return 0; }
  uint16_t Send(rte_mbuf** frames, uint16_t count, uint64_t) override {
    rte_pktmbuf_free_bulk(frames, count);
    return count;
  }
};

class WorkerStatsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(InitEal().ok()); }
  void SetUp() override {
    WorkerConfig config;
    config.max_queue_pairs = 1000;
    config.packet_buffers = 127;
    worker_ = Worker::Create(config).value();
    ip::InterfaceConfig interface;
    interface.mac = {2, 0, 0, 0, 0, 1};
    interface.addresses = {InterfaceAddress::Ipv4(0xC0000201)};
    interface_ = std::make_unique<ip::Interface>(interface);
    worker_->AddPort(interface_.get(), &link_, "wire0");
    pd_ = worker_->AllocPd().value();
    cq_ = worker_->CreateCq(64).value();
  }
  verbs::QueuePair* MakeQp() {
    verbs::QueuePairInitAttr init;
    init.pd = pd_;
    init.send_cq = init.recv_cq = cq_;
    return worker_->CreateQp(std::move(init)).value();
  }
  std::map<std::string, Stats::Value> Fields(const StatsQuery& query) {
    Stats stats;
    EXPECT_TRUE(worker_->Collect(query, &stats)) << query.topic;
    return {stats.fields().begin(), stats.fields().end()};
  }
  static uint64_t Number(const Stats::Value& value) { return std::get<uint64_t>(value); }
  static std::string Text(const Stats::Value& value) { return std::get<std::string>(value); }

  SilentLink link_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<ip::Interface> interface_;
  memory::ProtectionDomain* pd_ = nullptr;
  verbs::CompletionQueue* cq_ = nullptr;
};

TEST_F(WorkerStatsTest, PortFieldsAreReported) {
  worker_->Poll(1'000'000'000);
  worker_->Poll(2'000'000'000);
  auto port = Fields({.topic = "port"});
  EXPECT_EQ(Text(port["name"]), "wire0");
  EXPECT_EQ(Text(port["mac"]), "02:00:00:00:00:01");
  EXPECT_EQ(Text(port["gid/0"]), "192.0.2.1");
  EXPECT_EQ(Number(port["path_mtu"]), 1024u);
  EXPECT_EQ(Number(port["sent_pkts"]), worker_->counters().sent_pkts);
  EXPECT_GT(Number(port["arp_requests_sent"]), 0u) << "the probe of its own address";
  EXPECT_EQ(port.count("drops/bad_icrc"), 1u);
  EXPECT_EQ(Text(Fields({.topic = "ports"})["1"]), "wire0");
  Stats none;
  EXPECT_FALSE(worker_->Collect({.topic = "port", .object = 2}, &none));
  EXPECT_FALSE(worker_->Collect({.topic = "port", .object = 0}, &none));
}

TEST_F(WorkerStatsTest, PollsOfTheCoreAreReported) {
  for (uint64_t ns = 1; ns <= 10; ++ns) worker_->Poll(ns * 1'000'000'000);
  auto core = Fields({.topic = "worker"});
  EXPECT_EQ(Number(core["polls"]), 10u);
  EXPECT_LT(Number(core["busy_polls"]), 10u);
  EXPECT_EQ(Number(core["now_ns"]), 10'000'000'000u);
}

TEST_F(WorkerStatsTest, FieldsAndRecorderOfAQueuePairAreReported) {
  verbs::QueuePair* qp = MakeQp();
  auto told = Fields({.topic = "qp", .object = qp->qpn().value});
  EXPECT_EQ(Number(told["qpn"]), qp->qpn().value);
  EXPECT_EQ(Text(told["type"]), "RC");
  EXPECT_EQ(Text(told["state"]), "RESET");
  EXPECT_EQ(Number(told["retransmitted_pkts"]), 0u);
  EXPECT_EQ(Number(told["round_trip_ns"]), 0u) << "nothing was sent yet";
  EXPECT_EQ(Number(told["window_pkts"]), 128u);
  Stats none;
  EXPECT_FALSE(worker_->Collect({.topic = "qp"}, &none)) << "which?";
  EXPECT_FALSE(worker_->Collect({.topic = "qp", .object = qp->qpn().value ^ 1u << 14}, &none))
      << "another generation";
  EXPECT_FALSE(worker_->Collect({.topic = "qp", .object = 1}, &none)) << "there is no QP 1";
  EXPECT_FALSE(worker_->Collect({.topic = "qp", .object = UINT64_MAX}, &none));
  EXPECT_FALSE(worker_->Collect({.topic = "recorder", .object = 3}, &none));

  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  const int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  ASSERT_TRUE(worker_->ModifyQp(qp, attr, mask).ok());
  Stats recorder;
  ASSERT_TRUE(worker_->Collect({.topic = "recorder", .object = qp->qpn().value}, &recorder));
  ASSERT_EQ(recorder.lines().size(), 1u);
  EXPECT_NE(recorder.lines()[0].find("queue pair: INIT"), std::string::npos);
}

TEST_F(WorkerStatsTest, AListContinuesAfterTheGivenObject) {
  ASSERT_TRUE(
      worker_->CreateGsiQp({.type = IBV_QPT_UD, .pd = pd_, .send_cq = cq_, .recv_cq = cq_}).ok());
  std::map<uint64_t, int> expected = {{1, 1}};
  for (size_t i = 0; i < Stats::kMaxItems + 10; ++i) ++expected[MakeQp()->qpn().value];
  std::map<uint64_t, int> seen;
  std::optional<uint64_t> after;
  for (int page = 0; page < 3; ++page) {
    Stats stats;
    ASSERT_TRUE(worker_->Collect({.topic = "qps", .object = after}, &stats));
    EXPECT_EQ(stats.shape(), Stats::Shape::kNumbers);
    EXPECT_EQ(stats.numbers().size(), page == 0   ? Stats::kMaxItems
                                      : page == 1 ? size_t{11}
                                                  : size_t{0});
    for (const uint64_t qpn : stats.numbers()) ++seen[qpn];
    if (!stats.numbers().empty()) after = stats.numbers().back();
  }
  EXPECT_EQ(seen, expected);
}

TEST_F(WorkerStatsTest, MemoryUseIsReported) {
  verbs::QueuePair* qp = MakeQp();
  auto before = Fields({.topic = "memory"});
  EXPECT_EQ(Number(before["queue_pairs"]), 1u);
  EXPECT_EQ(Number(before["completion_queues"]), 1u);
  EXPECT_EQ(Number(before["packet_buffers"]), 127u);
  EXPECT_EQ(Number(before["packet_buffers_free"]), 127u);
  uint8_t bytes[16];
  ASSERT_TRUE(worker_->RegMr(pd_, bytes, sizeof bytes, 0).ok());
  ASSERT_TRUE(worker_->DestroyQp(qp).ok());
  auto after = Fields({.topic = "memory"});
  EXPECT_EQ(Number(after["queue_pairs"]), 0u);
  EXPECT_EQ(Number(after["regions_and_windows"]), 1u);
}

// Two of a kind, whose numbers are added, and a topic of their own.
TEST_F(WorkerStatsTest, StatsProvidersAreSummed) {
  struct Teller : StatsProvider {
    bool Collect(const StatsQuery& query, Stats* stats) override {
      if (query.topic != "calls") return false;
      stats->Count("calls", 3);
      return true;
    }
  } one, two;
  Stats none;
  EXPECT_FALSE(worker_->Collect({.topic = "calls"}, &none));
  worker_->AddStatsProvider(&one);
  worker_->AddStatsProvider(&two);
  EXPECT_EQ(Number(Fields({.topic = "calls"})["calls"]), 6u);
  worker_->RemoveStatsProvider(&one);
  EXPECT_EQ(Number(Fields({.topic = "calls"})["calls"]), 3u);
}

}  // namespace
}  // namespace pollux::engine
