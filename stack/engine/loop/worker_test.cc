#include "stack/engine/loop/worker.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "stack/engine/eal.h"
#include "stack/wire/bth.h"

namespace pollux::engine {
namespace {

using transport::Drop;

// Receives the frames that a test has queued, and frees the frames that are sent.
class InjectingLink : public io::Link {
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
    for (uint16_t i = 0; i < count; ++i) rte_pktmbuf_free(frames[i]);
    return count;
  }
  std::deque<rte_mbuf*> incoming;
};

class WorkerTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kQueuePairs = 4;

  static void SetUpTestSuite() { ASSERT_TRUE(InitEal().ok()); }
  void SetUp() override { Start(0); }
  void TearDown() override {
    interface_.reset();
    EXPECT_EQ(rte_mempool_in_use_count(worker_->packet_pool()), 0u);
  }

  void Start(uint32_t index) {
    if (worker_ != nullptr) TearDown();
    WorkerConfig config;
    config.index = index;
    config.max_queue_pairs = kQueuePairs;
    config.packet_buffers = 127;
    config.max_objects = 3;
    worker_ = Worker::Create(config).value();
    ip::InterfaceConfig interface;
    interface.mac = {2, 0, 0, 0, 0, 1};
    interface.addresses = {InterfaceAddress::Ipv4(0xC0000201)};
    interface.mtu = 1500;
    interface_ = std::make_unique<ip::Interface>(interface);
    worker_->AddPort(interface_.get(), &link_);
    pd_ = worker_->AllocPd().value();
    cq_ = worker_->CreateCq(64).value();
  }
  verbs::QueuePairInitAttr Init() {
    verbs::QueuePairInitAttr init;
    init.pd = pd_;
    init.send_cq = init.recv_cq = cq_;
    init.cap = {.max_send_wr = 4,
                .max_recv_wr = 4,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    return init;
  }
  // A frame that parses as far as the queue pair number, and has no valid ICRC.
  void Receive(Qpn qpn) {
    std::vector<uint8_t> bytes = {2,    0, 0,   0,  0, 1, 2,    0, 0,    0,    0, 2,  8,   0,
                                  0x45, 0, 0,   44, 0, 0, 0x40, 0, 64,   17,   0, 0,  192, 0,
                                  2,    2, 192, 0,  2, 1, 0xC0, 0, 0x12, 0xB7, 0, 24, 0,   0};
    uint32_t sum = 0;
    for (size_t i = 14; i < 34; i += 2) sum += bytes[i] << 8 | bytes[i + 1];
    while (sum > 0xFFFF) sum = (sum & 0xFFFF) + (sum >> 16);
    bytes[24] = static_cast<uint8_t>(~sum >> 8);
    bytes[25] = static_cast<uint8_t>(~sum);
    bytes.resize(bytes.size() + wire::kBthBytes + 4);
    wire::EmitBth({.opcode = wire::Opcode::kRcSendOnly, .dest_qpn = qpn}, &bytes[42]);
    rte_mbuf* frame = rte_pktmbuf_alloc(worker_->packet_pool());
    ASSERT_NE(frame, nullptr);
    rte_memcpy(rte_pktmbuf_append(frame, static_cast<uint16_t>(bytes.size())), bytes.data(),
               bytes.size());
    link_.incoming.push_back(frame);
    Poll();
  }
  void Poll(uint64_t later_ns = 0) { worker_->Poll(now_ns_ += later_ns); }
  uint64_t drops(Drop reason) { return worker_->counters().drop(reason); }

  uint64_t now_ns_ = 0;
  InjectingLink link_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<ip::Interface> interface_;
  memory::ProtectionDomain* pd_ = nullptr;
  verbs::CompletionQueue* cq_ = nullptr;
};

// ibv_post_send(3): a datagram is as large as the port's MTU allows, whatever the queue pair went
// through.
TEST_F(WorkerTest, DatagramsUpToThePortMtuAreSent) {
  verbs::QueuePairInitAttr init = Init();
  init.type = IBV_QPT_UD;
  verbs::QueuePair* qp = worker_->CreateQp(std::move(init)).value();
  ibv_ah_attr address{};
  address.is_global = 1;
  address.grh.hop_limit = 64;
  const Gid peer = Gid::FromIpv4(0xC0000202);
  std::memcpy(address.grh.dgid.raw, peer.raw.data(), 16);
  verbs::AddressHandle* ah = worker_->CreateAh(pd_, address).value();
  std::vector<uint8_t> bytes(2048);
  const memory::MemoryRegion region = worker_->RegMr(pd_, bytes.data(), bytes.size(), 0).value();
  ibv_qp_attr attr{};
  attr.port_num = 1;
  for (int life = 0; life < 2; ++life) {
    EXPECT_EQ(qp->attr.path_mtu, IBV_MTU_1024);
    for (const auto& [state, mask] :
         {std::pair{IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
          {IBV_QPS_RTR, 0},
          {IBV_QPS_RTS, static_cast<int>(IBV_QP_SQ_PSN)}}) {
      attr.qp_state = state;
      ASSERT_TRUE(worker_->ModifyQp(qp, attr, mask | IBV_QP_STATE).ok());
    }
    const auto post = [&](uint32_t length) {
      ibv_sge sge{reinterpret_cast<uint64_t>(bytes.data()), length, region.key};
      ibv_send_wr wr{};
      wr.sg_list = &sge;
      wr.num_sge = 1;
      wr.opcode = IBV_WR_SEND;
      wr.send_flags = IBV_SEND_SIGNALED;
      wr.wr.ud = {.ah = ah, .remote_qpn = 2, .remote_qkey = 1};
      return qp->PostSend(&wr, nullptr);
    };
    EXPECT_EQ(post(1025), EINVAL);
    EXPECT_EQ(post(1024), 0);
    Poll();
    ibv_wc wc{};
    ASSERT_EQ(cq_->Poll(1, &wc), 1);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    attr.qp_state = IBV_QPS_RESET;
    ASSERT_TRUE(worker_->ModifyQp(qp, attr, IBV_QP_STATE).ok());
  }
  ASSERT_TRUE(worker_->DestroyQp(qp).ok());
  ASSERT_TRUE(worker_->DestroyAh(ah).ok());
}

TEST_F(WorkerTest, PathMtuMayNotExceedThePortsMtu) {
  verbs::QueuePair* qp = worker_->CreateQp(Init()).value();
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  ASSERT_TRUE(
      worker_
          ->ModifyQp(qp, attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
          .ok());
  attr.qp_state = IBV_QPS_RTR;
  attr.ah_attr.is_global = 1;
  const Gid peer = Gid::FromIpv4(0xC0000202);
  std::memcpy(attr.ah_attr.grh.dgid.raw, peer.raw.data(), 16);
  constexpr int kToRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                         IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  attr.path_mtu = IBV_MTU_2048;
  EXPECT_TRUE(absl::IsInvalidArgument(worker_->ModifyQp(qp, attr, kToRtr)));
  EXPECT_EQ(qp->state(), IBV_QPS_INIT);
  EXPECT_EQ(qp->path.destination, Gid{});
  attr.path_mtu = IBV_MTU_1024;
  EXPECT_TRUE(worker_->ModifyQp(qp, attr, kToRtr).ok());
  EXPECT_EQ(qp->state(), IBV_QPS_RTR);
  ASSERT_TRUE(worker_->DestroyQp(qp).ok());
  Poll();  // sends the ARP request
}

TEST_F(WorkerTest, PacketsReachTheirQueuePairOrADropCounter) {
  verbs::QueuePair* qp = worker_->CreateQp(Init()).value();
  Receive(qp->qpn());
  EXPECT_EQ(drops(Drop::kQpState), 1u);  // it was found, in RESET
  const QpnLayout layout;
  const uint32_t index = layout.index(qp->qpn());
  Receive(layout.Make(0, (qp->qpn().value >> layout.index_bits) + 1, index));
  EXPECT_EQ(drops(Drop::kStaleQpn), 1u);
  Receive(layout.Make(5, 0, index));      // another worker's
  Receive(layout.Make(0, 0, index + 1));  // never used
  Receive(layout.Make(0, 0, 10'000));     // beyond the table
  Receive(kGsiQpn);                       // not made yet
  EXPECT_EQ(drops(Drop::kUnknownQpn), 4u);
  Receive(kMulticastQpn);  // not of a group that anybody is in
  EXPECT_EQ(drops(Drop::kNotForUs), 1u);
  ASSERT_TRUE(worker_->DestroyQp(qp).ok());
  EXPECT_EQ(worker_->counters().rcvd_pkts, 7u);
}

TEST_F(WorkerTest, FirstQueuePairNumberDependsOnTheSeed) {
  const QpnLayout layout;
  std::set<uint32_t> indices;
  for (uint8_t seed = 1; seed <= 4; ++seed) {
    WorkerConfig config;
    config.index = seed;
    config.packet_buffers = 127;
    config.seed = {seed};
    auto worker = Worker::Create(config).value();
    verbs::QueuePairInitAttr init = Init();
    init.pd = worker->AllocPd().value();
    init.send_cq = init.recv_cq = worker->CreateCq(64).value();
    indices.insert(layout.index(worker->CreateQp(std::move(init)).value()->qpn()));
  }
  EXPECT_EQ(indices.size(), 4u);
}

TEST_F(WorkerTest, QueuePairNumbersAreNotReservedAndChangeWithEveryUse) {
  for (const uint32_t index : {0u, 15u}) {
    Start(index);
    std::vector<Qpn> last(16384);
    for (int i = 0; i < 2000; ++i) {
      verbs::QueuePair* qp = worker_->CreateQp(Init()).value();
      const Qpn qpn = qp->qpn();
      ASSERT_GT(qpn.value, 1u);
      ASSERT_NE(qpn, kMulticastQpn);
      ASSERT_EQ(QpnLayout().worker(qpn), index);
      ASSERT_NE(last[QpnLayout().index(qpn)], qpn);
      last[QpnLayout().index(qpn)] = qpn;
      ASSERT_TRUE(worker_->DestroyQp(qp).ok());
    }
  }
}

TEST_F(WorkerTest, ADestroyedQueuePairLeavesItsPlaceAtOnce) {
  std::vector<verbs::QueuePair*> all;
  for (uint32_t i = 0; i < kQueuePairs; ++i) all.push_back(worker_->CreateQp(Init()).value());
  EXPECT_EQ(worker_->CreateQp(Init()).status().code(), absl::StatusCode::kResourceExhausted);
  const Qpn before = all[0]->qpn();
  ASSERT_TRUE(worker_->DestroyQp(all[0]).ok());
  const auto next = worker_->CreateQp(Init());
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_NE((*next)->qpn(), before);
}

TEST_F(WorkerTest, ObjectsInUseAreNotDestroyed) {
  verbs::QueuePair* qp = worker_->CreateQp(Init()).value();
  EXPECT_EQ(worker_->DestroyCq(cq_).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(worker_->DeallocPd(pd_).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(worker_->DestroyQp(qp).ok());
  EXPECT_TRUE(worker_->DestroyCq(cq_).ok());
  uint8_t byte;
  const auto region = worker_->RegMr(pd_, &byte, 1, 0);
  ASSERT_TRUE(region.ok());
  EXPECT_EQ(worker_->DeallocPd(pd_).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(worker_->DeregMr(*region).ok());
  EXPECT_EQ(worker_->DeregMr(*region).code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(worker_->DeallocPd(pd_).ok());
}

TEST_F(WorkerTest, ObjectsBeyondTheLimitAndOfOtherWorkersAreRefused) {
  EXPECT_TRUE(worker_->AllocPd().ok());
  EXPECT_TRUE(worker_->AllocPd().ok());
  EXPECT_EQ(worker_->AllocPd().status().code(), absl::StatusCode::kResourceExhausted);
  memory::ProtectionDomain foreign;
  verbs::QueuePairInitAttr init = Init();
  init.pd = &foreign;
  EXPECT_EQ(worker_->CreateQp(std::move(init)).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(worker_->RegMr(&foreign, nullptr, 0, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
  init = Init();
  init.cap.max_send_wr = verbs::kMaxWorkRequests + 1;
  EXPECT_EQ(worker_->CreateQp(std::move(init)).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(worker_->CreateCq(0).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(WorkerTest, GsiIsQueuePairOneAndUnique) {
  verbs::QueuePair* gsi = worker_->CreateGsiQp(Init()).value();
  EXPECT_EQ(gsi->qpn(), kGsiQpn);
  EXPECT_EQ(gsi->state(), IBV_QPS_RTS);
  EXPECT_EQ(worker_->CreateGsiQp(Init()).status().code(), absl::StatusCode::kAlreadyExists);
  Receive(kGsiQpn);
  EXPECT_EQ(drops(Drop::kWrongTransport), 1u);
  ASSERT_TRUE(worker_->DestroyQp(gsi).ok());
  EXPECT_TRUE(worker_->CreateGsiQp(Init()).ok());
}

TEST_F(WorkerTest, AnEventHandlerMayDestroyItsQueuePair) {
  verbs::QueuePair* qp = nullptr;
  int events = 0;
  verbs::QueuePairInitAttr init = Init();
  init.on_event = [&](ibv_event_type event) {
    EXPECT_EQ(event, IBV_EVENT_QP_FATAL);
    ++events;
    EXPECT_TRUE(worker_->DestroyQp(qp).ok());
    ++events;  // what was captured is still there
  };
  qp = worker_->CreateQp(std::move(init)).value();
  qp->RaiseEvent(IBV_EVENT_QP_FATAL);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  ASSERT_TRUE(worker_->ModifyQp(qp, attr, 0).ok());
  Poll();
  EXPECT_EQ(events, 2);
  Poll();
  EXPECT_EQ(events, 2);
}

struct CountingPoller : Poller {
  bool Poll(uint64_t) override {
    ++polls;
    if (action) action();
    return false;
  }
  int polls = 0;
  std::function<void()> action;
};

TEST_F(WorkerTest, PollersMayAddAndRemovePollers) {
  CountingPoller first, second, third;
  first.action = [&] {
    worker_->RemovePoller(&first);
    worker_->AddPoller(&third);
  };
  third.action = [&] { worker_->RemovePoller(&second); };
  worker_->AddPoller(&first);
  worker_->AddPoller(&second);
  Poll();
  Poll();
  EXPECT_EQ(first.polls, 1);
  EXPECT_EQ(second.polls, 1);
  EXPECT_EQ(third.polls, 2);
}

TEST_F(WorkerTest, TimersArmedLongAfterTheLastPollStartAtTheCall) {
  constexpr uint64_t kIdleNs = 1'000'000'000, kTimeoutNs = 100'000'000;
  bool fired = false;
  Timer timer([](void* flag, uint64_t /*now_ns*/) { *static_cast<bool*>(flag) = true; }, &fired);
  Poll();
  now_ns_ += kIdleNs;
  worker_->AdvanceClock(now_ns_);
  EXPECT_EQ(worker_->now_ns(), now_ns_);
  worker_->wheel().Arm(timer, worker_->now_ns() + kTimeoutNs);
  Poll();
  Poll(kTimeoutNs / 2);
  EXPECT_FALSE(fired);
  worker_->AdvanceClock(now_ns_ - 1);
  EXPECT_EQ(worker_->now_ns(), now_ns_);
  Poll(kTimeoutNs);
  EXPECT_TRUE(fired);
}

TEST(WorkerCreateTest, OversizedConfigurationsAreRefused) {
  ASSERT_TRUE(InitEal().ok());
  const auto code = [](WorkerConfig config) { return Worker::Create(config).status().code(); };
  EXPECT_EQ(code({.index = 16}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.max_queue_pairs = 16382}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.max_queue_pairs = 16381, .packet_buffers = 127}), absl::StatusCode::kOk);
  EXPECT_EQ(code({.qpn_layout = {.worker_bits = 4, .index_bits = 20}, .max_queue_pairs = 4}),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.max_queue_pairs = 4, .packet_buffers = 200'000'000}),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace pollux::engine
