// Who sends in a poll: what is owed for what came in it, and queue pairs in their turns.
#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "stack/engine/eal.h"
#include "stack/engine/loop/link_watch.h"
#include "stack/engine/loop/worker.h"
#include "stack/transport/ack_policy.h"
#include "stack/transport/message/egress.h"
#include "stack/transport/rc/rc_responder.h"
#include "stack/wire/roce_packet.h"
#include "tests/sim/connect.h"

namespace pollux::engine {
namespace {

using transport::AckPolicy;

constexpr uint16_t kBurst = 32;       // a worker receives at once
constexpr uint32_t kSmallPairs = 32;  // one burst of messages, each from another queue pair
constexpr uint32_t kBulkPairs = 20;   // which wait for turns
constexpr uint32_t kPairs = kSmallPairs + kBulkPairs;
constexpr uint32_t kSmall = 8;
constexpr uint32_t kBulk = 64 * 1024;

// One direction of a wire is the queue that its receiver looks at.
class PipeLink : public io::Link {
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
    if (full) return 0;
    peer->incoming.insert(peer->incoming.end(), frames, frames + count);
    return count;
  }
  // Packets that wait to be received.
  std::vector<wire::RocePacket> Packets() const {
    std::vector<wire::RocePacket> packets;
    for (const rte_mbuf* frame : incoming) {
      wire::RocePacket packet;
      const auto* bytes = rte_pktmbuf_mtod(frame, const uint8_t*);
      if (wire::ParseRocePacket(bytes, frame->data_len, &packet) == wire::ParseResult::kOk) {
        packets.push_back(packet);
      }
    }
    return packets;
  }
  std::vector<wire::Operation> Operations() const {
    std::vector<wire::Operation> operations;
    for (const wire::RocePacket& packet : Packets()) operations.push_back(packet.info->operation);
    return operations;
  }
  // How many of them are for one queue pair in a row, each time.
  std::vector<uint32_t> Runs() const {
    std::vector<uint32_t> runs;
    Qpn last;
    for (const wire::RocePacket& packet : Packets()) {
      if (runs.empty() || packet.bth.dest_qpn != last) runs.push_back(0);
      ++runs.back();
      last = packet.bth.dest_qpn;
    }
    return runs;
  }
  uint32_t Count(wire::Operation operation) const {
    const std::vector<wire::Operation> all = Operations();
    return static_cast<uint32_t>(std::count(all.begin(), all.end(), operation));
  }
  PipeLink* peer = nullptr;
  std::deque<rte_mbuf*> incoming;
  bool full = false;
};

struct End {
  explicit End(uint8_t number) {
    WorkerConfig config;
    config.seed[0] = number;
    worker = Worker::Create(config).value();
    ip::InterfaceConfig of_port;
    of_port.mac = {2, 0, 0, 0, 0, number};
    of_port.addresses = {InterfaceAddress::Ipv4(0xC0000200 + number)};
    of_port.mtu = 4300;  // path MTU 4096
    address = Gid::FromIpv4(0xC0000200 + number);
    interface = std::make_unique<ip::Interface>(of_port);
    worker->AddPort(interface.get(), &link);
    pd = worker->AllocPd().value();
    cq = worker->CreateCq(8 * kPairs).value();
    region = worker
                 ->RegMr(pd, memory.data(), memory.size(),
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
                 .value();
    for (uint32_t i = 0; i < kPairs; ++i) qps.push_back(Create({}));
  }
  verbs::QueuePair* Create(verbs::MessageHandler handler) {
    verbs::QueuePairInitAttr init;
    init.pd = pd;
    init.send_cq = init.recv_cq = cq;
    init.cap.max_send_wr = init.cap.max_recv_wr = 8;
    init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    init.message_handler = handler;
    return worker->CreateQp(std::move(init)).value();
  }
  void Replace(uint32_t pair, verbs::MessageHandler handler) {
    ASSERT_TRUE(worker->DestroyQp(qps[pair]).ok());
    qps[pair] = Create(handler);
  }
  void Connect(const End& peer, ibv_mtu path_mtu, uint32_t first = 0, uint32_t end = kPairs) {
    ibv_qp_attr attr{};
    attr.path_mtu = path_mtu;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 2;
    attr.timeout = 20;
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.hop_limit = 64;
    std::memcpy(attr.ah_attr.grh.dgid.raw, peer.address.raw.data(), peer.address.raw.size());
    for (uint32_t i = first; i < end; ++i) {
      ASSERT_TRUE(sim::BringToRts(*worker, qps[i], peer.qps[i]->qpn(), attr).ok());
    }
  }
  void Receive(uint32_t pair) {
    ibv_sge sge{reinterpret_cast<uint64_t>(memory.data()), kSmall, region.key};
    EXPECT_EQ(qps[pair]->PostOneRecv(pair, sge), 0);
  }
  void Send(uint32_t pair) {
    ibv_sge sge{reinterpret_cast<uint64_t>(memory.data()), kSmall, region.key};
    EXPECT_EQ(qps[pair]->PostOneSend(pair, sge, IBV_SEND_SIGNALED, 0), 0);
  }
  void Write(uint32_t pair, const End& peer) {
    Move(IBV_WR_RDMA_WRITE, pair, peer, peer.memory.data());
  }
  void Move(ibv_wr_opcode opcode, uint32_t pair, const End& peer, const uint8_t* address) {
    ibv_sge sge{reinterpret_cast<uint64_t>(memory.data()), kBulk, region.key};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {.remote_addr = reinterpret_cast<uint64_t>(address), .rkey = peer.region.key};
    EXPECT_EQ(qps[pair]->PostSend(&wr, nullptr), 0);
  }
  void Poll(AckPolicy::Action acks = AckPolicy::kSendNow) { worker->Poll(now_ns += 1000, acks); }

  Gid address;
  std::vector<uint8_t> memory = std::vector<uint8_t>(kBulk);
  PipeLink link;
  std::unique_ptr<Worker> worker;
  std::unique_ptr<ip::Interface> interface;
  memory::ProtectionDomain* pd = nullptr;
  verbs::CompletionQueue* cq = nullptr;
  memory::MemoryRegion region;
  std::vector<verbs::QueuePair*> qps;
  uint64_t now_ns = 0;
};

class WorkerTurnsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(InitEal().ok()); }
  explicit WorkerTurnsTest(ibv_mtu path_mtu = IBV_MTU_1024) : a_(1), b_(2) {
    a_.link.peer = &b_.link;
    b_.link.peer = &a_.link;
    a_.Connect(b_, path_mtu);
    b_.Connect(a_, path_mtu);
    for (uint32_t pair = 0; pair < kSmallPairs; ++pair) b_.Receive(pair);
    // One message each way, by which each end finds the other.
    const uint32_t last = kPairs - 1;
    b_.Receive(last);
    a_.Send(last);
    PollUntilCompleted(a_, 1);
    a_.Receive(last);
    b_.Send(last);
    PollUntilCompleted(b_, 2);
  }
  ~WorkerTurnsTest() override {
    for (End* end : {&a_, &b_}) {
      for (verbs::QueuePair* qp : end->qps) EXPECT_TRUE(end->worker->DestroyQp(qp).ok());
    }
    // Frames travel between the pools: all must be home before either goes.
    for (End* end : {&a_, &b_}) {
      for (rte_mbuf* frame : end->link.incoming) rte_pktmbuf_free(frame);
      end->link.incoming.clear();
    }
  }
  void PollBoth() {
    a_.Poll();
    b_.Poll();
  }
  // And drops the completions.
  void PollUntilCompleted(End& end, uint32_t count) {
    for (int polls = 0; end.cq->size() < count; ++polls) {
      ASSERT_LT(polls, 100'000) << "no end in sight";
      PollBoth();
    }
    std::vector<ibv_wc> all(count);
    ASSERT_EQ(end.cq->Poll(static_cast<int>(count), all.data()), static_cast<int>(count));
    for (const ibv_wc& wc : all) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  }
  // A message of each small pair's, in one burst, waits to be received.
  void SendBurst() {
    for (uint32_t pair = 0; pair < kSmallPairs; ++pair) a_.Send(pair);
    for (int polls = 0; b_.link.incoming.size() < kSmallPairs; ++polls) {
      ASSERT_LT(polls, 100) << "no end in sight";
      a_.Poll();
    }
    ASSERT_EQ(b_.link.incoming.size(), kSmallPairs);
    static_assert(kSmallPairs == kBurst);
  }
  void WriteBulk() {
    for (uint32_t pair = kSmallPairs; pair < kPairs; ++pair) b_.Write(pair, a_);
  }

  End a_, b_;
};

TEST_F(WorkerTurnsTest, AcknowledgementsAreSentInThePollThatCreatesThem) {
  WriteBulk();
  SendBurst();
  b_.Poll();
  EXPECT_EQ(a_.link.Count(wire::Operation::kAck), kSmallPairs);
  // And data is not held back for them.
  EXPECT_GE(a_.link.Count(wire::Operation::kWrite), kBurst);
  PollUntilCompleted(a_, kSmallPairs);
}

TEST_F(WorkerTurnsTest, HeldAcknowledgementsAreSentWithTheNextPost) {
  SendBurst();
  EXPECT_FALSE(b_.worker->OwesAcks());
  b_.Poll(AckPolicy::kHold);
  EXPECT_EQ(b_.cq->size(), kSmallPairs);
  EXPECT_EQ(a_.link.incoming.size(), 0u);
  EXPECT_TRUE(b_.worker->OwesAcks());
  a_.Receive(0);
  b_.Send(0);
  b_.Poll();
  EXPECT_FALSE(b_.worker->OwesAcks());
  EXPECT_EQ(a_.link.Count(wire::Operation::kAck), kSmallPairs);
  EXPECT_EQ(a_.link.Count(wire::Operation::kSend), 1u);
  PollUntilCompleted(a_, kSmallPairs + 1);
}

// So a peer has the completion of its SEND before it sees what answers that.
TEST_F(WorkerTurnsTest, HeldAcknowledgementsAreSentBeforeTheNextPost) {
  a_.Send(0);
  a_.Poll();
  b_.Poll(AckPolicy::kHold);
  a_.Receive(0);
  b_.Send(0);
  b_.Poll();
  EXPECT_FALSE(b_.worker->OwesAcks());
  EXPECT_EQ(a_.link.Operations(), (std::vector{wire::Operation::kAck, wire::Operation::kSend}));
  PollUntilCompleted(a_, 2);
}

// Queue pairs 0 and 1 of b, whose messages are handled by a call.
class MessageHandlerTest : public WorkerTurnsTest {
 protected:
  MessageHandlerTest() {
    for (uint32_t pair : {0, 1}) {
      a_.Replace(pair, {});
      b_.Replace(pair, {&MessageHandlerTest::Handle, this});
    }
    a_.Connect(b_, IBV_MTU_1024, 0, 2);
    b_.Connect(a_, IBV_MTU_1024, 0, 2);
    // The first message, whose headers b learns, completes a receive.
    for (uint32_t pair : {0, 1}) {
      b_.Receive(pair);
      b_.Receive(pair);
      a_.Send(pair);
    }
    PollUntilCompleted(a_, 2);
    PollUntilCompleted(b_, 2);
  }
  static void Handle(void* test, const verbs::PostedRecv& receive, const uint8_t* /*message*/,
                     size_t bytes) {
    auto& self = *static_cast<MessageHandlerTest*>(test);
    EXPECT_EQ(bytes, kSmall);
    self.handled_.push_back(static_cast<uint32_t>(receive.wr_id));
    if (self.handled_.size() == 1 && self.on_first_) self.on_first_();
  }
  // Messages of these pairs, in one burst.
  void Send(const std::vector<uint32_t>& pairs) {
    for (uint32_t pair : pairs) a_.Send(pair);
    for (int polls = 0; b_.link.incoming.size() < pairs.size(); ++polls) {
      ASSERT_LT(polls, 100) << "no end in sight";
      a_.Poll();
    }
    b_.Poll();
  }
  void Destroy(uint32_t pair) {
    EXPECT_TRUE(b_.worker->DestroyQp(b_.qps[pair]).ok());
    b_.qps[pair] = b_.Create({});
  }

  std::vector<uint32_t> handled_;  // pairs
  std::function<void()> on_first_;
};

TEST_F(MessageHandlerTest, MessagesNeedNoCompletion) {
  Send({0, 1, 0});
  EXPECT_EQ(handled_.size(), 3u);
  EXPECT_EQ(b_.cq->size(), 0u);
  EXPECT_EQ(b_.qps[0]->rq_depth(), 1u) << "the receive stays posted";
  PollUntilCompleted(a_, 3);
}

TEST_F(MessageHandlerTest, AHandlerMayPost) {
  a_.Receive(0);
  on_first_ = [this] { b_.Send(0); };
  Send({0});
  EXPECT_EQ(a_.link.Count(wire::Operation::kSend), 1u) << "in the same turn";
  PollUntilCompleted(a_, 2);
}

TEST_F(MessageHandlerTest, AHandlerMayDestroyItsQueuePair) {
  on_first_ = [this] { Destroy(0); };
  Send({0, 0, 1});
  EXPECT_EQ(handled_, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(b_.worker->counters().drop(transport::Drop::kUnknownQpn), 1u);
  for (int polls = 0; polls < 10; ++polls) PollBoth();
  EXPECT_GE(a_.cq->size(), 2u) << "both handled messages are acknowledged";
}

TEST_F(MessageHandlerTest, AHandlerMayDestroyTheQueuePairOfThePacketBefore) {
  b_.Replace(0, {});
  a_.Replace(0, {});
  a_.Connect(b_, IBV_MTU_1024, 0, 1);
  b_.Connect(a_, IBV_MTU_1024, 0, 1);
  b_.Receive(0);
  on_first_ = [this] { Destroy(0); };
  Send({0, 1, 1});
  EXPECT_EQ(handled_, (std::vector<uint32_t>{1, 1}));
}

// RFC 4861 section 7.3.1: what is acknowledged has reached the neighbour.
TEST_F(WorkerTurnsTest, AcknowledgementsKeepNeighboursReachable) {
  constexpr uint64_t kStep = ip::NeighbourTable::kReachableNs / 2;
  const auto pass = [&] {
    for (End* end : {&a_, &b_}) end->now_ns += kStep;
    PollBoth();
  };
  const ip::NeighbourAddress b{b_.address};
  for (int step = 0; step < 3; ++step) pass();  // whatever was asked before is answered
  PollBoth();
  ASSERT_EQ(a_.interface->neighbours().state(b), ip::NeighbourState::kReachable);
  const auto requests = [&] { return a_.interface->counters().arp_requests_sent; };
  const uint64_t before = requests();
  for (int step = 0; step < 20; ++step) {
    b_.Receive(0);
    a_.Send(0);
    PollUntilCompleted(a_, 1);
    PollUntilCompleted(b_, 1);
    pass();
    EXPECT_EQ(a_.interface->neighbours().state(b), ip::NeighbourState::kReachable);
  }
  EXPECT_EQ(requests(), before);
  for (int step = 0; step < 12 && requests() == before; ++step) pass();
  EXPECT_EQ(requests(), before + 1) << "without progress it is asked";
}

// A fatal NAK is the last that the queue pair sends: what is posted is flushed behind it.
TEST_F(WorkerTurnsTest, AFatalNakIsNotHeld) {
  a_.Move(IBV_WR_RDMA_WRITE, 0, b_, b_.memory.data() + 1);
  a_.Poll();
  b_.Poll(AckPolicy::kHold);
  b_.Send(0);
  b_.Poll();
  EXPECT_EQ(b_.qps.front()->state(), IBV_QPS_ERR);
  EXPECT_EQ(a_.link.Count(wire::Operation::kAck), 1u);
  EXPECT_EQ(a_.link.Count(wire::Operation::kSend), 0u);
}

// An acknowledgement that waits for the responses to a READ, which take turns, stands behind them.
TEST_F(WorkerTurnsTest, AcknowledgementsFollowReadResponsesOfSeveralPolls) {
  WriteBulk();
  a_.Move(IBV_WR_RDMA_READ, 0, b_, b_.memory.data());
  a_.Send(0);
  a_.Poll();
  b_.Poll();
  EXPECT_LT(a_.link.Count(wire::Operation::kReadResponse), kBulk / 1024);
  EXPECT_FALSE(b_.worker->OwesAcks());
  for (int polls = 0; a_.link.Count(wire::Operation::kReadResponse) < kBulk / 1024; ++polls) {
    ASSERT_LT(polls, 100);
    b_.Poll();
  }
  EXPECT_EQ(a_.link.Count(wire::Operation::kAck), 1u);
  PollUntilCompleted(a_, 2);
}

// It tells of what was completed before.
TEST_F(WorkerTurnsTest, HeldAcknowledgementsAreSentWhenAPostedRequestFails) {
  a_.Send(0);
  a_.Poll();
  b_.Poll(AckPolicy::kHold);
  ibv_sge sge{reinterpret_cast<uint64_t>(b_.memory.data()), kSmall, b_.region.key + 1};
  EXPECT_EQ(b_.qps[0]->PostOneSend(0, sge, IBV_SEND_SIGNALED, 0), 0);
  b_.Poll();
  EXPECT_EQ(b_.qps[0]->state(), IBV_QPS_ERR);
  EXPECT_EQ(a_.link.Count(wire::Operation::kAck), 1u);
  PollUntilCompleted(a_, 1);
}

TEST_F(WorkerTurnsTest, HeldAcknowledgementsAreSentBeforeDataAfterAFullLink) {
  WriteBulk();
  SendBurst();
  b_.link.full = true;
  for (int polls = 0; polls < 10; ++polls) b_.Poll(AckPolicy::kHold);
  b_.link.full = false;
  b_.Poll();
  EXPECT_EQ(a_.link.Count(wire::Operation::kAck), kSmallPairs);
  // Before the last of the data.
  EXPECT_NE(a_.link.Operations().back(), wire::Operation::kAck);
  PollUntilCompleted(a_, kSmallPairs);
}

TEST_F(WorkerTurnsTest, HeldAcknowledgementsAreSentBeforeTheirQueuePairIsDestroyed) {
  SendBurst();
  b_.Poll(AckPolicy::kHold);
  ASSERT_TRUE(b_.worker->DestroyQp(b_.qps.front()).ok());
  b_.qps.erase(b_.qps.begin());
  b_.Poll(AckPolicy::kHold);
  EXPECT_EQ(a_.link.Count(wire::Operation::kAck), transport::RcResponder::kLastAcks);
  b_.Poll();
  PollUntilCompleted(a_, kSmallPairs);
}

// An adapter sends within microseconds of the post: a program may count on it, whatever it does
// next with the queue pair.
TEST_F(WorkerTurnsTest, PostedRequestsAreSentBeforeTheQueuePairLeavesRts) {
  const auto move = [this](uint32_t pair, ibv_qp_state state) {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    EXPECT_TRUE(a_.worker->ModifyQp(a_.qps[pair], attr, IBV_QP_STATE).ok());
  };
  PollUntilCompleted(a_, 1);  // the message from before
  for (uint32_t pair = 0; pair < 3; ++pair) a_.Send(pair);
  move(0, IBV_QPS_ERR);
  move(1, IBV_QPS_RESET);
  ASSERT_TRUE(a_.worker->DestroyQp(a_.qps[2]).ok());
  a_.qps.erase(a_.qps.begin() + 2);
  a_.Poll();
  EXPECT_EQ(b_.link.Count(wire::Operation::kSend), 3u);
  b_.Poll();
  EXPECT_EQ(b_.cq->size(), 3u);
  std::array<ibv_wc, 2> all{};
  ASSERT_EQ(a_.cq->Poll(2, all.data()), 1) << "of a queue pair in RESET nothing completes";
  EXPECT_EQ(all[0].status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(WorkerTurnsTest, AcknowledgementsAreSentBeforeTheLastPacketsOfTheirQueuePair) {
  a_.Send(0);
  a_.Poll();
  b_.Poll(AckPolicy::kHold);
  b_.Send(0);
  ASSERT_TRUE(b_.worker->DestroyQp(b_.qps[0]).ok());
  b_.qps.erase(b_.qps.begin());
  b_.Poll();
  const std::vector<wire::Operation> left = a_.link.Operations();
  ASSERT_EQ(left.size(), transport::RcResponder::kLastAcks + 1u);
  EXPECT_EQ(left.back(), wire::Operation::kSend);
}

// It holds up no other queue pair for longer than a burst takes, nor for ever behind a full link.
TEST_F(WorkerTurnsTest, TheLastPacketsOfAQueuePairAreBounded) {
  a_.link.full = true;
  for (uint32_t pair = kSmallPairs; pair < kPairs; ++pair) {
    a_.Write(pair, b_);
    ASSERT_TRUE(a_.worker->DestroyQp(a_.qps[pair]).ok());
  }
  a_.qps.resize(kSmallPairs);
  a_.Poll();
  EXPECT_TRUE(b_.link.incoming.empty());
  // Packets for which there was room are not lost.
  a_.link.full = false;
  a_.Poll();
  EXPECT_GT(b_.link.Count(wire::Operation::kWrite), 0u);
  EXPECT_LE(b_.link.incoming.size(), transport::Egress::kCapacity);
}

TEST_F(WorkerTurnsTest, OfTheDatagramsOfADestroyedQueuePairTheFirst256AreSent) {
  constexpr uint32_t kPosted = 300;
  constexpr uint32_t kLast = 256;  // kLastPackets of worker_queue_pairs.cc
  verbs::QueuePairInitAttr init;
  init.type = IBV_QPT_UD;
  init.pd = a_.pd;
  init.send_cq = init.recv_cq = a_.cq;
  init.cap.max_send_wr = kPosted;
  init.cap.max_recv_wr = init.cap.max_send_sge = init.cap.max_recv_sge = 1;
  verbs::QueuePair* const qp = a_.worker->CreateQp(std::move(init)).value();
  ASSERT_TRUE(sim::BringToRts(*a_.worker, qp, Qpn{}, {}).ok());
  ibv_ah_attr to_b{};
  to_b.is_global = 1;
  to_b.port_num = 1;
  to_b.grh.hop_limit = 64;
  std::memcpy(to_b.grh.dgid.raw, b_.address.raw.data(), b_.address.raw.size());
  verbs::AddressHandle* const ah = a_.worker->CreateAh(a_.pd, to_b).value();
  ibv_sge sge{reinterpret_cast<uint64_t>(a_.memory.data()), kSmall, a_.region.key};
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.wr.ud = {.ah = ah, .remote_qpn = b_.qps[0]->qpn().value, .remote_qkey = 0};
  for (uint32_t i = 0; i < kPosted; ++i) ASSERT_EQ(qp->PostSend(&wr, nullptr), 0);
  ASSERT_TRUE(a_.worker->DestroyQp(qp).ok());
  a_.Poll();
  EXPECT_EQ(b_.link.Count(wire::Operation::kSend), kLast);
  EXPECT_TRUE(a_.worker->DestroyAh(ah).ok());
}

// One message each is one turn each: as many leave in a poll as a burst holds.
TEST_F(WorkerTurnsTest, SmallMessagesOfManyQueuePairsAreSentInOneBurst) {
  for (uint32_t pair = 0; pair < kSmallPairs; ++pair) a_.Send(pair);
  a_.Poll();
  EXPECT_EQ(b_.link.Count(wire::Operation::kSend), kSmallPairs);
  PollUntilCompleted(a_, kSmallPairs);
}

// As those have whose windows are closed, with each response that does not open them.
TEST_F(WorkerTurnsTest, QueuePairsWithNothingToSendDoNotUseUpTurns) {
  for (uint32_t pair = kSmallPairs; pair < kPairs; ++pair) a_.qps[pair]->Activate();
  a_.Send(0);
  a_.Poll();
  EXPECT_EQ(b_.link.Count(wire::Operation::kSend), 1u);
  PollUntilCompleted(a_, 1);
}

TEST_F(WorkerTurnsTest, FramesRefusedByTheLinkAreSentLater) {
  WriteBulk();
  b_.link.full = true;
  // The egress fills with data.
  for (int polls = 0; polls < 10; ++polls) b_.Poll();
  SendBurst();
  for (int polls = 0; polls < 10; ++polls) b_.Poll();
  EXPECT_TRUE(a_.link.incoming.empty());
  b_.link.full = false;
  b_.Poll();
  EXPECT_EQ(a_.link.Count(wire::Operation::kAck), kSmallPairs);
  PollUntilCompleted(a_, kSmallPairs);
}

// Switches and neighbours may have forgotten this host.
TEST_F(WorkerTurnsTest, ThisHostAnnouncesItselfWhenItsLinkComesUp) {
  bool up = true;
  a_.worker->WatchLink([&up] { return io::LinkState{.up = up}; });
  const auto pass = [this](int looks) {
    for (; looks > 0; --looks) {
      a_.now_ns += LinkWatch::kIntervalNs;
      a_.Poll();
    }
  };
  pass(20);
  for (rte_mbuf* frame : b_.link.incoming) rte_pktmbuf_free(frame);
  b_.link.incoming.clear();
  up = false;
  pass(2);
  EXPECT_TRUE(b_.link.incoming.empty());
  up = true;
  pass(2);
  EXPECT_FALSE(b_.link.incoming.empty());
}

// Four times as long as those of the others.
class WorkerTurnsOfLongPacketsTest : public WorkerTurnsTest {
 protected:
  static constexpr uint32_t kPackets = kBulk / 4096;
  // The last goes beyond.
  static constexpr uint32_t kInATurn = 34 * 1024 / 4096 + 1;
  static_assert(kPackets / 2 < kInATurn && kInATurn < kPackets);
  WorkerTurnsOfLongPacketsTest() : WorkerTurnsTest(IBV_MTU_4096) {}
};

TEST_F(WorkerTurnsOfLongPacketsTest, RequestsTakeTurnsInBytes) {
  for (const uint32_t pair : {0, 1}) b_.Write(pair, a_);
  b_.Poll();
  EXPECT_EQ(a_.link.Runs(),
            (std::vector{kInATurn, kInATurn, kPackets - kInATurn, kPackets - kInATurn}));
  PollUntilCompleted(b_, 2);
}

TEST_F(WorkerTurnsOfLongPacketsTest, ResponsesTakeTurnsInBytes) {
  for (const uint32_t pair : {0, 1}) {
    a_.Move(IBV_WR_RDMA_READ, pair, b_, b_.memory.data());
  }
  a_.Poll();
  b_.Poll();
  EXPECT_EQ(a_.link.Runs(),
            (std::vector{kInATurn, kInATurn, kPackets - kInATurn, kPackets - kInATurn}));
  PollUntilCompleted(a_, 2);
}

// A NAK is owed as an acknowledgement is: here for a receive that nobody posted.
TEST_F(WorkerTurnsTest, ANakIsSentWithoutATurn) {
  WriteBulk();
  for (int i = 0; i < 2; ++i) a_.Send(0);
  a_.Poll();
  b_.Poll();
  EXPECT_EQ(b_.worker->counters().send_rnr_err, 1u);
  EXPECT_EQ(a_.link.Count(wire::Operation::kAck), 1u);
}

// It owes an acknowledgement when it goes, and has no turn any more.
TEST_F(WorkerTurnsTest, ADestroyedQueuePairIsRemovedFromTheActiveLists) {
  struct Destroyer : Poller {
    bool Poll(uint64_t) override {
      if (qp != nullptr) {
        EXPECT_TRUE(worker->DestroyQp(std::exchange(qp, nullptr)).ok());
      }
      return false;
    }
    Worker* worker;
    verbs::QueuePair* qp;
  } destroyer;
  SendBurst();
  destroyer.worker = b_.worker.get();
  destroyer.qp = b_.qps[0];
  b_.worker->AddPoller(&destroyer);
  b_.Poll();
  b_.qps.erase(b_.qps.begin());
  b_.worker->RemovePoller(&destroyer);
  EXPECT_EQ(a_.link.Count(wire::Operation::kAck),
            kSmallPairs - 1 + transport::RcResponder::kLastAcks);
  PollUntilCompleted(a_, kSmallPairs);
}

}  // namespace
}  // namespace pollux::engine
