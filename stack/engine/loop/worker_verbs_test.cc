// A worker's windows, shared receive queues, completion queue failures, multicast and queries.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "stack/base/byte_order.h"
#include "stack/engine/eal.h"
#include "stack/engine/loop/worker.h"
#include "stack/wire/checksum.h"
#include "stack/wire/icrc.h"

namespace pollux::engine {
namespace {

using transport::Drop;

class QuietLink : public io::Link {
 public:
  uint16_t Receive(rte_mbuf** frames, uint16_t, uint64_t) override {
    if (incoming == nullptr) return 0;
    *frames = std::exchange(incoming, nullptr);
    return 1;
  }
  uint16_t Send(rte_mbuf** frames, uint16_t count, uint64_t) override {
    rte_pktmbuf_free_bulk(frames, count);
    return count;
  }
  rte_mbuf* incoming = nullptr;
};

class WorkerVerbsTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kQkey = 0x01234567;

  static void SetUpTestSuite() { ASSERT_TRUE(InitEal().ok()); }
  WorkerVerbsTest() {
    WorkerConfig config;
    config.max_queue_pairs = 4;
    config.packet_buffers = 127;
    config.max_objects = 3;
    config.max_regions = 16;
    worker_ = Worker::Create(config).value();
    ip::InterfaceConfig interface;
    interface.mac = {2, 0, 0, 0, 0, 1};
    interface.addresses = {InterfaceAddress::Ipv4(0xC0000201)};
    interface.mtu = 1500;
    interface_ = std::make_unique<ip::Interface>(interface);
    worker_->AddPort(interface_.get(), &link_);
    pd_ = worker_->AllocPd().value();
    cq_ = worker_->CreateCq(2, Record()).value();
  }
  ~WorkerVerbsTest() override {
    interface_.reset();
    EXPECT_EQ(rte_mempool_in_use_count(worker_->packet_pool()), 0u);
  }
  verbs::EventHandler Record() {
    return [this](ibv_event_type event) { events_.push_back(event); };
  }
  verbs::QueuePairInitAttr Init(ibv_qp_type type) {
    verbs::QueuePairInitAttr init;
    init.type = type;
    init.pd = pd_;
    init.send_cq = init.recv_cq = cq_;
    init.cap = {.max_send_wr = 4,
                .max_recv_wr = 4,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    init.on_event = Record();
    return init;
  }
  verbs::QueuePair* MakeUd() {
    verbs::QueuePair* qp = worker_->CreateQp(Init(IBV_QPT_UD)).value();
    ibv_qp_attr attr{};
    attr.port_num = 1;
    attr.qkey = kQkey;
    for (const auto& [state, mask] :
         {std::pair{IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
          {IBV_QPS_RTR, 0},
          {IBV_QPS_RTS, static_cast<int>(IBV_QP_SQ_PSN)}}) {
      attr.qp_state = state;
      EXPECT_TRUE(worker_->ModifyQp(qp, attr, mask | IBV_QP_STATE).ok());
    }
    return qp;
  }
  void PostRecv(verbs::QueuePair* qp, uint8_t* to, uint32_t length, uint32_t key) {
    ibv_sge sge{reinterpret_cast<uint64_t>(to), length, key};
    ibv_recv_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    EXPECT_EQ(qp->PostRecv(&wr, nullptr), 0);
  }
  void Poll() { worker_->Poll(now_ns_ += 1000); }

  uint64_t now_ns_ = 0;
  QuietLink link_;
  std::vector<ibv_event_type> events_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<ip::Interface> interface_;
  memory::ProtectionDomain* pd_ = nullptr;
  verbs::CompletionQueue* cq_ = nullptr;
  uint8_t memory_[256] = {};
};

TEST_F(WorkerVerbsTest, MemoryWindowsAreAllocatedBoundAndFreed) {
  const memory::MemoryRegion region =
      worker_->RegMr(pd_, memory_, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND).value();
  ibv_mw* window = worker_->AllocMw(pd_, IBV_MW_TYPE_1).value();
  verbs::QueuePair* qp = worker_->CreateQp(Init(IBV_QPT_RC)).value();
  qp->attr.qp_state = IBV_QPS_RTS;
  ibv_mr mr{};
  mr.lkey = region.key;
  ibv_mw_bind bind{};
  bind.send_flags = IBV_SEND_SIGNALED;
  bind.bind_info = {
      .mr = &mr, .addr = region.iova, .length = 64, .mw_access_flags = IBV_ACCESS_REMOTE_READ};
  const uint32_t before = window->rkey;
  ASSERT_EQ(worker_->BindMw(qp, window, bind), 0);
  EXPECT_NE(window->rkey, before);
  EXPECT_EQ(window->rkey >> 8, before >> 8);
  Poll();
  ibv_wc wc{};
  ASSERT_EQ(cq_->Poll(1, &wc), 1);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_BIND_MW);
  uint8_t* at;
  EXPECT_EQ(pd_->regions->CheckRemote(*pd_, qp->qpn().value, window->rkey, region.iova, 64,
                                      IBV_ACCESS_REMOTE_READ, &at),
            memory::AccessResult::kOk);
  EXPECT_EQ(worker_->DeregMr(region).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(worker_->DeallocMw(window).ok());
  EXPECT_EQ(worker_->DeallocMw(window).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(worker_->DeregMr(region).ok());
  ibv_mw* of_type_2 = worker_->AllocMw(pd_, IBV_MW_TYPE_2).value();
  EXPECT_EQ(worker_->BindMw(qp, of_type_2, bind), EINVAL);
}

TEST_F(WorkerVerbsTest, ASharedReceiveQueueInUseIsNotDestroyed) {
  EXPECT_EQ(
      worker_->CreateSrq(pd_, {.max_wr = 16385, .max_sge = 1, .srq_limit = 0}).status().code(),
      absl::StatusCode::kInvalidArgument);
  verbs::SharedReceiveQueue* srq =
      worker_->CreateSrq(pd_, {.max_wr = 4, .max_sge = 1, .srq_limit = 0}, Record()).value();
  EXPECT_EQ(worker_->DeallocPd(pd_).code(), absl::StatusCode::kFailedPrecondition);
  verbs::QueuePairInitAttr init = Init(IBV_QPT_RC);
  init.srq = srq;
  init.cap.max_recv_wr = init.cap.max_recv_sge = 1u << 20;  // ignored
  verbs::QueuePair* qp = worker_->CreateQp(std::move(init)).value();
  EXPECT_EQ(worker_->DestroySrq(srq).code(), absl::StatusCode::kFailedPrecondition);
  // Events come from the poll, never from inside a call.
  ibv_srq_attr limit{};
  limit.srq_limit = 1;
  ASSERT_TRUE(srq->Modify(limit, IBV_SRQ_LIMIT).ok());
  EXPECT_TRUE(events_.empty());
  Poll();
  EXPECT_EQ(events_, std::vector<ibv_event_type>{IBV_EVENT_SRQ_LIMIT_REACHED});
  EXPECT_TRUE(worker_->DestroyQp(qp).ok());
  EXPECT_TRUE(worker_->DestroySrq(srq).ok());
  EXPECT_EQ(worker_->DestroySrq(srq).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(WorkerVerbsTest, ALostCompletionMovesAllQueuePairsOfTheQueueToErr) {
  verbs::QueuePair* a = worker_->CreateQp(Init(IBV_QPT_RC)).value();
  verbs::QueuePair* b = worker_->CreateQp(Init(IBV_QPT_RC)).value();
  verbs::QueuePair* unused = worker_->CreateQp(Init(IBV_QPT_RC)).value();
  a->attr.qp_state = b->attr.qp_state = IBV_QPS_RTS;
  for (int i = 0; i < 3; ++i) PostRecv(a, memory_, 0, 0);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(a->TakeRecv());
    ibv_wc wc{};
    a->CompleteRecv(wc);
  }
  EXPECT_TRUE(cq_->overrun());
  EXPECT_EQ(a->state(), IBV_QPS_ERR);
  Poll();
  Poll();
  EXPECT_EQ(b->state(), IBV_QPS_ERR);
  EXPECT_EQ(unused->state(), IBV_QPS_RESET);
  EXPECT_EQ(std::count(events_.begin(), events_.end(), IBV_EVENT_CQ_ERR), 1);
  EXPECT_EQ(std::count(events_.begin(), events_.end(), IBV_EVENT_QP_FATAL), 2);
}

// Keeps who has told it of failures.
struct Observer : FailureObserver {
  void OnQpFailure(verbs::QueuePair& qp, const transport::QpDiagnostics& diagnostics) override {
    told.emplace_back(qp.qpn(), diagnostics.failure());
    if (then) then(qp);
  }
  std::vector<std::pair<Qpn, ibv_wc_status>> told;
  std::function<void(verbs::QueuePair&)> then;
};

class WorkerFailureTest : public WorkerVerbsTest {
 protected:
  // A queue pair whose message nobody answers.
  verbs::QueuePair* SendInVain() {
    verbs::QueuePair* qp = worker_->CreateQp(Init(IBV_QPT_RC)).value();
    ibv_qp_attr attr{};
    attr.port_num = 1;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = 77;
    attr.timeout = 1;  // 8.2 us
    attr.retry_cnt = 2;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.grh.hop_limit = 64;
    const Gid peer = Gid::FromIpv4(0xC0000202);
    std::memcpy(attr.ah_attr.grh.dgid.raw, peer.raw.data(), 16);
    for (const auto& [state, mask] :
         {std::pair{IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
          {IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER},
          {IBV_QPS_RTS, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                            IBV_QP_MAX_QP_RD_ATOMIC}}) {
      attr.qp_state = state;
      EXPECT_TRUE(worker_->ModifyQp(qp, attr, mask | IBV_QP_STATE).ok());
    }
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    EXPECT_EQ(qp->PostSend(&wr, nullptr), 0);
    return qp;
  }
  // Only when nobody has answered to ARP do its retries begin to count.
  void WaitForTheFailure() {
    for (uint64_t ns = 0; ns < 5'000'000'000; ns += 1'000'000) worker_->Poll(ns);
  }
};

TEST_F(WorkerFailureTest, AFailedQueuePairIsReportedOnce) {
  const auto observer = std::make_shared<Observer>();
  worker_->AddFailureObserver(observer);
  auto gone = std::make_shared<Observer>();
  worker_->AddFailureObserver(gone);
  gone.reset();
  verbs::QueuePair* qp = SendInVain();
  WaitForTheFailure();
  ASSERT_EQ(observer->told.size(), 1u);
  EXPECT_EQ(observer->told[0], std::pair(qp->qpn(), IBV_WC_RETRY_EXC_ERR));
  ASSERT_TRUE(worker_->DestroyQp(qp).ok());
  interface_->Clear();
}

TEST_F(WorkerFailureTest, AQueuePairDestroyedByAnObserverIsNotReportedToOthers) {
  const auto destroyer = std::make_shared<Observer>(), late = std::make_shared<Observer>();
  worker_->AddFailureObserver(destroyer);
  worker_->AddFailureObserver(late);
  destroyer->then = [this](verbs::QueuePair& qp) { EXPECT_TRUE(worker_->DestroyQp(&qp).ok()); };
  SendInVain();
  WaitForTheFailure();
  EXPECT_EQ(destroyer->told.size(), 1u);
  EXPECT_EQ(late->told.size(), 0u);
  interface_->Clear();
}

TEST_F(WorkerVerbsTest, ACompletionQueueWithAPendingEventIsNotDestroyed) {
  const auto channel = verbs::CompletionChannel::Create().value();
  verbs::CompletionQueue* cq = worker_->CreateCq(4).value();
  ASSERT_TRUE(cq->SetChannel(channel.get()).ok());
  cq->Arm(false);
  cq->Push(ibv_wc{});
  EXPECT_EQ(worker_->DestroyCq(cq).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(channel->GetEvent(), cq);
  EXPECT_TRUE(worker_->DestroyCq(cq).ok());
  Poll();
}

TEST_F(WorkerVerbsTest, AChannelMayBeDestroyedAsSoonAsItsCompletionQueueIs) {
  auto channel = verbs::CompletionChannel::Create().value();
  verbs::CompletionQueue* cq = worker_->CreateCq(4).value();
  ASSERT_TRUE(cq->SetChannel(channel.get()).ok());
  cq->Arm(false);
  EXPECT_TRUE(worker_->DestroyCq(cq).ok());
  channel.reset();
  Poll();
}

class WorkerMulticastTest : public WorkerVerbsTest {
 protected:
  static constexpr uint32_t kGroupAddress = 0xE0010203;  // 224.1.2.3

  // A datagram of four bytes for the group, to a MAC address whose last byte is `mac_end`.
  void Receive(uint32_t group, uint32_t qkey, uint8_t mac_end = 3) {
    constexpr size_t kUdp = 34, kBth = kUdp + 8, kDeth = kBth + wire::kBthBytes;
    constexpr size_t kPayload = kDeth + wire::kDethBytes, kEnd = kPayload + 4;
    std::vector<uint8_t> bytes(kEnd + wire::kIcrcBytes);
    const uint8_t mac[] = {1, 0, 0x5E, 1, 2, mac_end, 2, 0, 0, 0, 0, 2, 8, 0};
    std::copy(std::begin(mac), std::end(mac), bytes.begin());
    uint8_t* ip = &bytes[14];
    ip[0] = 0x45;
    StoreBe16(ip + 2, static_cast<uint16_t>(bytes.size() - 14));
    ip[8] = 1;
    ip[9] = 17;
    StoreBe32(ip + 12, 0xC0000202);
    StoreBe32(ip + 16, group);
    StoreBe16(ip + 10, wire::InternetChecksum(ip, 20));
    StoreBe16(&bytes[kUdp + 2], wire::kRocePort);
    StoreBe16(&bytes[kUdp + 4], static_cast<uint16_t>(bytes.size() - kUdp));
    wire::EmitBth({.opcode = wire::Opcode::kUdSendOnly, .dest_qpn = kMulticastQpn}, &bytes[kBth]);
    wire::EmitDeth({.qkey = qkey, .source_qpn = Qpn{0x77}}, &bytes[kDeth]);
    bytes[kPayload] = 0x5A;
    wire::RocePacket packet;
    ASSERT_EQ(wire::ParseRocePacket(bytes.data(), bytes.size(), &packet), wire::ParseResult::kOk);
    wire::EmitIcrc(wire::ComputeIcrc(packet), &bytes[kEnd]);
    link_.incoming = rte_pktmbuf_alloc(worker_->packet_pool());
    std::memcpy(rte_pktmbuf_append(link_.incoming, static_cast<uint16_t>(bytes.size())),
                bytes.data(), bytes.size());
    Poll();
  }
};

TEST_F(WorkerMulticastTest, EveryMemberGetsACopy) {
  const uint32_t key = worker_->RegMr(pd_, memory_, sizeof memory_, IBV_ACCESS_LOCAL_WRITE)->key;
  verbs::QueuePair* a = MakeUd();
  verbs::QueuePair* b = MakeUd();
  const Gid group = Gid::FromIpv4(kGroupAddress);
  for (verbs::QueuePair* qp : {a, b, a}) EXPECT_TRUE(worker_->AttachMulticast(qp, group).ok());
  PostRecv(a, memory_, 64, key);
  PostRecv(b, memory_ + 64, 64, key);
  Receive(kGroupAddress, kQkey);
  ibv_wc wc[2];
  ASSERT_EQ(cq_->Poll(2, wc), 2);
  for (const ibv_wc& each : wc) {
    EXPECT_EQ(each.byte_len, 44u);
    EXPECT_EQ(each.src_qp, 0x77u);
  }
  EXPECT_EQ(memory_[40], 0x5A);
  EXPECT_EQ(memory_[64 + 40], 0x5A);
  Receive(kGroupAddress, kQkey + 1);
  EXPECT_EQ(worker_->counters().drop(Drop::kBadQkey), 2u);
  Receive(kGroupAddress + 1, kQkey);
  EXPECT_EQ(worker_->counters().drop(Drop::kNotForUs), 1u);
  EXPECT_TRUE(worker_->DetachMulticast(a, group).ok());
  EXPECT_EQ(worker_->DetachMulticast(a, group).code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(worker_->DestroyQp(b).ok()) << "which detaches it";
  Receive(kGroupAddress, kQkey);
  EXPECT_EQ(worker_->counters().drop(Drop::kNotForUs), 2u);
}

TEST_F(WorkerMulticastTest, OnlyFramesWithTheMacOfTheGroupAreDelivered) {
  const uint32_t key = worker_->RegMr(pd_, memory_, sizeof memory_, IBV_ACCESS_LOCAL_WRITE)->key;
  verbs::QueuePair* qp = MakeUd();
  ASSERT_TRUE(worker_->AttachMulticast(qp, Gid::FromIpv4(kGroupAddress)).ok());
  PostRecv(qp, memory_, 64, key);
  Receive(kGroupAddress, kQkey, /*mac_end=*/4);
  EXPECT_EQ(worker_->counters().drop(Drop::kNotForUs), 1u);
  ibv_wc wc{};
  EXPECT_EQ(cq_->Poll(1, &wc), 0);
  Receive(kGroupAddress, kQkey);
  EXPECT_EQ(cq_->Poll(1, &wc), 1);
}

TEST_F(WorkerMulticastTest, AttachNeedsAUdQueuePairAndAMulticastGroup) {
  verbs::QueuePair* rc = worker_->CreateQp(Init(IBV_QPT_RC)).value();
  EXPECT_FALSE(worker_->AttachMulticast(rc, Gid::FromIpv4(kGroupAddress)).ok());
  EXPECT_FALSE(worker_->AttachMulticast(MakeUd(), Gid::FromIpv4(0xC0000202)).ok());
}

TEST_F(WorkerVerbsTest, LinkChangesAreReportedToPortObservers) {
  struct Observer : PortObserver {
    void OnPortEvent(uint8_t port_num, ibv_event_type event) override {
      told.emplace_back(port_num, event);
    }
    std::vector<std::pair<int, ibv_event_type>> told;
  } observer, removed;
  worker_->AddPortObserver(&observer);
  worker_->AddPortObserver(&removed);
  worker_->RemovePortObserver(&removed);
  io::LinkState link{.up = true, .speed_mbps = 100'000};
  worker_->WatchLink([&] { return link; });
  const auto wait = [&] { worker_->Poll(now_ns_ += 2 * LinkWatch::kIntervalNs); };
  wait();
  EXPECT_TRUE(observer.told.empty());
  link.up = false;
  wait();
  EXPECT_EQ(worker_->QueryPort()->state, IBV_PORT_DOWN);
  EXPECT_EQ(worker_->QueryPort()->phys_state, 3) << "disabled";
  Stats stats;
  ASSERT_TRUE(worker_->Collect({.topic = "port"}, &stats));
  const auto downed = std::ranges::find(stats.fields(), "link_downed", &Stats::Field::first);
  ASSERT_NE(downed, stats.fields().end());
  EXPECT_EQ(std::get<uint64_t>(downed->second), 1u);
  link.up = true;
  wait();
  EXPECT_EQ(worker_->QueryPort()->state, IBV_PORT_ACTIVE);
  EXPECT_EQ(observer.told, (std::vector<std::pair<int, ibv_event_type>>{
                               {1, IBV_EVENT_PORT_ERR}, {1, IBV_EVENT_PORT_ACTIVE}}));
  EXPECT_TRUE(removed.told.empty());
}

// IB specification, PortInfo: 1x is 1, 4x is 2; SDR 1, DDR 2, FDR10 8, EDR 32, HDR 64, NDR 128.
TEST_F(WorkerVerbsTest, SpeedsAreReportedAsPortInfoCodes) {
  io::LinkState link;
  worker_->WatchLink([&] { return link; });
  const struct {
    uint32_t mbps;
    int width, speed;
  } kSpeeds[] = {{0, 0, 0},        {10, 1, 1},       {1'000, 1, 1},
                 {10'000, 1, 8},   {25'000, 1, 32},  {40'000, 2, 8},
                 {100'000, 2, 32}, {200'000, 2, 64}, {400'000, 2, 128}};
  for (const auto& speed : kSpeeds) {
    link.speed_mbps = speed.mbps;
    worker_->Poll(now_ns_ += 2 * LinkWatch::kIntervalNs);
    EXPECT_EQ(worker_->QueryPort()->active_width, speed.width) << speed.mbps;
    EXPECT_EQ(worker_->QueryPort()->active_speed, speed.speed) << speed.mbps;
  }
}

TEST_F(WorkerVerbsTest, QueriedLimitsHold) {
  const ibv_device_attr device = worker_->QueryDevice();
  EXPECT_EQ(device.max_qp, 4);
  EXPECT_EQ(device.max_mr, 16);
  EXPECT_EQ(device.max_cqe, static_cast<int>(verbs::kMaxCqEntries));
  EXPECT_EQ(device.max_qp_rd_atom, static_cast<int>(verbs::kMaxRdAtomic));
  EXPECT_EQ(device.atomic_cap, IBV_ATOMIC_GLOB);
  EXPECT_EQ(device.phys_port_cnt, 1);
  EXPECT_NE(device.device_cap_flags & IBV_DEVICE_SRQ_RESIZE, 0u);
  // As many as it says, and not one more.
  for (int i = 0; i < device.max_srq; ++i) {
    ASSERT_TRUE(worker_->CreateSrq(pd_, {.max_wr = 1, .max_sge = 1, .srq_limit = 0}).ok());
  }
  EXPECT_EQ(worker_->CreateSrq(pd_, {.max_wr = 1, .max_sge = 1, .srq_limit = 0}).status().code(),
            absl::StatusCode::kResourceExhausted);

  const ibv_port_attr port = worker_->QueryPort(1).value();
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.active_width, 0) << "nobody looks at the link";
  EXPECT_EQ(port.active_mtu, IBV_MTU_1024);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_FALSE(worker_->QueryPort(2).ok());

  const verbs::QueuePair* qp = MakeUd();
  ibv_qp_attr attr;
  ibv_qp_init_attr init;
  Worker::QueryQp(*qp, &attr, &init);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attr.qkey, kQkey);
  EXPECT_EQ(attr.cap.max_send_wr, 4u);
  EXPECT_EQ(init.qp_type, IBV_QPT_UD);
  EXPECT_EQ(init.send_cq, reinterpret_cast<ibv_cq*>(cq_));
}

}  // namespace
}  // namespace pollux::engine
