#include "cm/gsi/gsi.h"

#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "cm/gsi/mad_frame.h"
#include "stack/base/byte_order.h"
#include "stack/engine/eal.h"
#include "stack/engine/loop/worker.h"
#include "stack/ip/interface.h"
#include "tests/sim/simulation.h"

namespace pollux::cm {
namespace {

constexpr uint64_t kMillisecond = 1'000'000;

MadBuffer MarkedMad(uint8_t mark) {
  MadBuffer mad;
  mad.fill(mark);
  return mad;
}

// Queue pair 1 of one node, and what it has received.
struct Side : engine::Poller {
  explicit Side(sim::Node* the_node) : node(the_node) {
    auto made = Gsi::Create(&node->worker(), &counters);
    EXPECT_TRUE(made.ok()) << made.status();
    gsi = *std::move(made);
    node->worker().AddPoller(this);
  }
  ~Side() override { node->worker().RemovePoller(this); }
  bool Poll(uint64_t) override {
    return gsi->Poll([this](const Gid& from, const Gid& to, std::span<const uint8_t> mad) {
      EXPECT_EQ(to, node->gid());
      sources.push_back(from);
      mads.emplace_back(mad.begin(), mad.end());
    });
  }

  sim::Node* node;
  Counters counters;
  std::unique_ptr<Gsi> gsi;
  std::vector<Gid> sources;
  std::vector<std::vector<uint8_t>> mads;
};

class GsiTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(engine::InitEal().ok()); }
  void TearDown() override {
    a.reset();
    b.reset();
    EXPECT_EQ(world.Leaks(), "");
  }

  sim::Simulation world{1, {}};
  std::unique_ptr<Side> a = std::make_unique<Side>(&world.AddNode());
  std::unique_ptr<Side> b = std::make_unique<Side>(&world.AddNode());
};

TEST_F(GsiTest, DeliversMadsWithTheirSource) {
  EXPECT_TRUE(a->gsi->Send(0, b->node->gid(), MarkedMad(7)));
  world.RunFor(kMillisecond);
  ASSERT_EQ(b->mads.size(), 1u);
  EXPECT_EQ(b->sources[0], a->node->gid());
  EXPECT_EQ(b->mads[0], std::vector<uint8_t>(kMadBytes, 7));
  EXPECT_TRUE(a->gsi->IsResolved(0, b->node->gid()));
}

TEST_F(GsiTest, PendingSendsAreBoundedUntilTheyComplete) {
  ASSERT_TRUE(a->gsi->StartResolve(0, b->node->gid()).ok());
  world.RunFor(kMillisecond);
  for (int round = 0; round < 3; ++round) {
    b->mads.clear();
    constexpr uint32_t kAll = Gsi::kSends + Gsi::kWaiting;
    for (uint32_t i = 0; i < kAll; ++i) {
      EXPECT_TRUE(a->gsi->Send(0, b->node->gid(), MarkedMad(static_cast<uint8_t>(i))));
    }
    EXPECT_FALSE(a->gsi->Send(0, b->node->gid(), MarkedMad(1)));
    EXPECT_EQ(a->counters.drop(MadDrop::kSendQueueFull), static_cast<uint64_t>(round) + 1);
    world.RunFor(sim::Simulation::kSecond);
    ASSERT_EQ(b->mads.size(), kAll) << "none is lost at the other end either";
    for (uint32_t i = 0; i < kAll; ++i) ASSERT_EQ(b->mads[i][0], i % 256) << i;
  }
}

// A program that connects to more hosts at once than are remembered: whoever has answered is found.
TEST_F(GsiTest, AResolutionSurvivesMoreResolutionsThanThePeerTableHolds) {
  ASSERT_TRUE(a->gsi->StartResolve(0, b->node->gid()).ok());
  for (uint32_t i = 0; i < Gsi::kMaxPeers; ++i) {
    ASSERT_TRUE(a->gsi->StartResolve(0, Gid::FromIpv4(a->node->address() + 3 + i)).ok()) << i;
  }
  world.RunFor(kMillisecond);
  EXPECT_EQ(a->node->interface().neighbours().state({b->node->gid()}),
            ip::NeighbourState::kReachable);
  EXPECT_TRUE(a->gsi->IsResolved(0, b->node->gid()));
}

TEST_F(GsiTest, MadsAreSentAfterMorePeersThanThePeerTableHolds) {
  for (uint32_t i = 0; i < 2 * Gsi::kMaxPeers; ++i) {
    // Nobody is there: these wait for an answer to ARP that does not come.
    EXPECT_TRUE(a->gsi->Send(0, Gid::FromIpv4(a->node->address() + 3 + i), MarkedMad(0))) << i;
    world.RunFor(kMillisecond / 10);
  }
  world.RunFor(10 * sim::Simulation::kSecond);
  EXPECT_TRUE(a->gsi->Send(0, b->node->gid(), MarkedMad(9)));
  world.RunFor(kMillisecond);
  EXPECT_EQ(b->mads.size(), 1u);
}

// The kernel changes the address, the routes or the MAC address of this interface.
class RenumberedTest : public testing::Test, public ip::HostInterface, public io::Link {
 protected:
  static constexpr uint32_t kBefore = 0xC0000201, kAfter = 0xC0000202, kPeer = 0xC0000209;
  static void SetUpTestSuite() { ASSERT_TRUE(engine::InitEal().ok()); }
  RenumberedTest() {
    state_.mac = {2, 0, 0, 0, 0, 1};
    state_.mtu = 1500;
    state_.addresses = {InterfaceAddress::Ipv4(kBefore)};
    engine::WorkerConfig config;
    config.packet_buffers = 511;
    worker_ = engine::Worker::Create(config).value();
    interface_ = std::make_unique<ip::Interface>(ip::InterfaceConfig{.mtu = 1500}, this);
    worker_->AddPort(interface_.get(), this);
    gsi_ = *Gsi::Create(worker_.get(), &counters_);
  }
  ~RenumberedTest() override {
    gsi_.reset();
    Pass();
    interface_.reset();
  }
  // net::HostInterface
  bool Poll(std::vector<ip::KernelNeighbour>* found) override {
    found->insert(found->end(), news_.begin(), news_.end());
    news_.clear();
    return std::exchange(changed_, false);
  }
  const ip::KernelState& state() const override { return state_; }
  void Solicit(const Gid& target) override {
    news_.push_back({target, {2, 0, 0, 0, 0, target.raw.back()}});
  }
  absl::Status Join(const Gid&) override { return absl::OkStatus(); }
  absl::Status Leave(const Gid&) override { return absl::OkStatus(); }
  // transport::Link
  uint16_t Receive(rte_mbuf** frames, uint16_t, uint64_t) override {
    const auto count = static_cast<uint16_t>(arrivals_.size());
    std::copy(arrivals_.begin(), arrivals_.end(), frames);
    arrivals_.clear();
    return count;
  }
  uint16_t Send(rte_mbuf** frames, uint16_t count, uint64_t) override {
    for (uint16_t i = 0; i < count; ++i) {
      const auto* bytes = rte_pktmbuf_mtod(frames[i], const uint8_t*);
      sources_.push_back(LoadBe32(bytes + 14 + 12));
      next_hops_.push_back(bytes[5]);
      source_macs_.push_back(bytes[11]);
    }
    rte_pktmbuf_free_bulk(frames, count);
    return count;
  }

  void Pass() {
    for (int i = 0; i < 10; ++i) {
      worker_->Poll(now_ns_ += 2 * kMillisecond);
      gsi_ != nullptr && gsi_->Poll([this](const Gid& from, const Gid&, std::span<const uint8_t>) {
        received_.push_back(from);
      });
    }
  }

  ip::KernelState state_;
  std::vector<ip::KernelNeighbour> news_;
  bool changed_ = false;
  // Of the frames sent: IP addresses, and the last byte of MAC addresses.
  std::vector<uint32_t> sources_;
  std::vector<uint8_t> next_hops_, source_macs_;
  std::vector<rte_mbuf*> arrivals_;
  std::vector<Gid> received_;  // sources of MADs
  uint64_t now_ns_ = 0;
  Counters counters_;
  std::unique_ptr<engine::Worker> worker_;
  std::unique_ptr<ip::Interface> interface_;
  std::unique_ptr<Gsi> gsi_;
};

TEST_F(RenumberedTest, ANewAddressBecomesTheSource) {
  const Gid peer = Gid::FromIpv4(kPeer);
  ASSERT_TRUE(gsi_->Send(*interface_->GidIndex(Gid::FromIpv4(kBefore)), peer, MarkedMad(1)));
  Pass();
  EXPECT_EQ(sources_, std::vector{kBefore});
  state_.addresses = {InterfaceAddress::Ipv4(kAfter)};
  changed_ = true;
  Pass();
  ASSERT_FALSE(interface_->GidIndex(Gid::FromIpv4(kBefore)).has_value());
  sources_.clear();
  ASSERT_TRUE(gsi_->Send(*interface_->GidIndex(Gid::FromIpv4(kAfter)), peer, MarkedMad(2)));
  Pass();
  EXPECT_EQ(sources_, std::vector{kAfter});
}

TEST_F(RenumberedTest, ANewRouteOrMacAddressIsUsedForKnownPeers) {
  const Gid peer = Gid::FromIpv4(0x01020304);
  const auto send = [&] {
    ASSERT_TRUE(gsi_->Send(*interface_->GidIndex(Gid::FromIpv4(kBefore)), peer, MarkedMad(1)));
    Pass();
  };
  for (const uint8_t gateway : {0x11, 0x12}) {
    state_.routes = ip::DefaultRoutes(Gid::FromIpv4(0xC0000200 + gateway), state_.addresses);
    changed_ = true;
    Pass();
    send();
    send();
  }
  state_.mac.back() = 3;
  changed_ = true;
  Pass();
  send();
  EXPECT_EQ(next_hops_, (std::vector<uint8_t>{0x11, 0x11, 0x12, 0x12, 0x12}));
  EXPECT_EQ(source_macs_, (std::vector<uint8_t>{1, 1, 1, 1, 3}));
}

// Otherwise each would be answered to many hosts.
TEST_F(RenumberedTest, MadsFromGroupAndBroadcastAddressesAreDropped) {
  rte_mempool* const pool =
      rte_pktmbuf_pool_create("gsi_test", 15, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
  ASSERT_NE(pool, nullptr);
  verbs::LinkAddress own;
  own.Store(state_.mac, true);
  const Gid host = Gid::FromIpv4(kPeer);
  for (const Gid& source : {Gid::FromIpv4(0xE00000FB), Gid::FromIpv4(0xFFFFFFFF), host}) {
    verbs::AddressHandle path{};
    path.source = source;
    path.destination = Gid::FromIpv4(kBefore);
    path.hop_limit = 64;
    path.link = &own;
    rte_mbuf* const frame = rte_pktmbuf_alloc(pool);
    ASSERT_NE(frame, nullptr);
    const size_t bytes = EmitMadFrame(path, MarkedMad(1), rte_pktmbuf_mtod(frame, uint8_t*));
    rte_pktmbuf_append(frame, static_cast<uint16_t>(bytes));
    arrivals_.push_back(frame);
  }
  Pass();
  EXPECT_EQ(received_, std::vector{host});
  rte_mempool_free(pool);
}

TEST_F(GsiTest, WithoutARouteResolveAndSendFail) {
  EXPECT_FALSE(a->gsi->StartResolve(0, Gid::FromIpv4(0x01020304)).ok());
  EXPECT_FALSE(a->gsi->Send(0, Gid::FromIpv4(0x01020304), MarkedMad(1)));
  EXPECT_FALSE(a->gsi->IsResolved(0, Gid::FromIpv4(0x01020304)));
}

// A UD queue pair of no standing sends to queue pair 1, and datagrams of other lengths.
TEST_F(GsiTest, MadsFromUserQueuePairsFailTheQkeyCheck) {
  engine::Worker& worker = a->node->worker();
  memory::ProtectionDomain* pd = *worker.AllocPd();
  verbs::CompletionQueue* cq = *worker.CreateCq(512);
  verbs::QueuePairInitAttr init;
  init.type = IBV_QPT_UD;
  init.pd = pd;
  init.send_cq = init.recv_cq = cq;
  init.cap.max_send_wr = 512;
  init.cap.max_send_sge = 1;
  verbs::QueuePair* qp = *worker.CreateQp(std::move(init));
  ibv_qp_attr attr{};
  attr.port_num = 1;
  attr.qkey = 1;
  attr.qp_state = IBV_QPS_INIT;
  ASSERT_TRUE(
      worker.ModifyQp(qp, attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY).ok());
  attr.qp_state = IBV_QPS_RTR;
  ASSERT_TRUE(worker.ModifyQp(qp, attr, IBV_QP_STATE).ok());
  attr.qp_state = IBV_QPS_RTS;
  ASSERT_TRUE(worker.ModifyQp(qp, attr, IBV_QP_STATE | IBV_QP_SQ_PSN).ok());
  ibv_ah_attr to{};
  to.is_global = 1;
  to.grh.hop_limit = 64;
  std::copy_n(b->node->gid().raw.begin(), 16, to.grh.dgid.raw);
  verbs::AddressHandle* ah = *worker.CreateAh(pd, to);
  std::array<uint8_t, 1024> memory{};
  const memory::MemoryRegion region = *worker.RegMr(pd, memory.data(), memory.size(), 0);
  uint32_t sent = 0;
  for (uint32_t length = 0; length <= kMadBytes; ++length, ++sent) {
    ibv_sge sge{reinterpret_cast<uint64_t>(memory.data()), length, region.key};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = 1;
    wr.wr.ud.remote_qkey = 0x00010000;  // of the low half; with bit 31 the sender's own is taken
    const ibv_send_wr* bad = nullptr;
    ASSERT_EQ(qp->PostSend(&wr, &bad), 0);
    world.RunFor(kMillisecond / 10);
  }
  world.RunFor(kMillisecond);
  // The Q_Key is the privileged one: queue pairs of users cannot name it.
  EXPECT_TRUE(b->mads.empty());
  EXPECT_EQ(b->node->worker().counters().drop(transport::Drop::kBadQkey), sent);
  ASSERT_TRUE(worker.DestroyQp(qp).ok());
  ASSERT_TRUE(worker.DestroyAh(ah).ok());
  ASSERT_TRUE(worker.DeregMr(region).ok());
  ASSERT_TRUE(worker.DestroyCq(cq).ok());
  ASSERT_TRUE(worker.DeallocPd(pd).ok());
}

}  // namespace
}  // namespace pollux::cm
