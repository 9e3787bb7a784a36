#include "stack/transport/test_pair.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "stack/io/eal_for_test.h"

namespace pollux::transport {
namespace {

constexpr unsigned kPoolFrames = 1023;
constexpr unsigned kPoolCache = 64;

}  // namespace

TestNode::TestNode(const std::string& name, Qpn qpn, uint32_t ipv4, ibv_qp_type type,
                   const ibv_qp_cap& cap, bool shared, const DcqcnParameters* dcqcn,
                   uint32_t first_msn)
    : pool((io::InitEalForTest(), rte_pktmbuf_pool_create(name.c_str(), kPoolFrames, kPoolCache, 0,
                                                          4480 + 128, SOCKET_ID_ANY))),
      egress(this, pool, &counters),
      address(ipv4) {
  EXPECT_NE(pool, nullptr);
  key =
      regions
          .Register(&pd, memory.data(), memory.size(),
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                        IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | memory::kAccessFlushGlobal)
          ->key;
  verbs::QueuePairInitAttr init;
  init.type = type;
  init.pd = &pd;
  init.send_cq = init.recv_cq = &cq;
  init.srq = shared ? &srq : nullptr;
  init.first_msn = first_msn;
  init.cap = cap;
  init.on_event = [this](ibv_event_type event) { events.push_back(event); };
  endpoint = std::make_unique<Endpoint>(qpn, std::move(init), &active, nullptr, dcqcn);
}

TestNode::~TestNode() {
  egress.Flush(0);
  for (rte_mbuf* frame : outgoing) rte_pktmbuf_free(frame);
  EXPECT_EQ(rte_mempool_avail_count(pool), kPoolFrames) << "frames leaked";
  rte_mempool_free(pool);
}

uint16_t TestNode::Send(rte_mbuf** frames, uint16_t count, uint64_t) {
  outgoing.insert(outgoing.end(), frames, frames + count);
  return count;
}

void TestNode::Connect(const TestNode& peer, ibv_qp_attr attr) {
  PollContext poll = context(0);
  verbs::QueuePair& qp = endpoint->qp;
  const bool rc = qp.type() == IBV_QPT_RC;
  const bool ud = qp.type() == IBV_QPT_UD;
  constexpr int kPath = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  const auto modify = [&](ibv_qp_state state, int mask) {
    attr.qp_state = state;
    const absl::Status status = endpoint->Modify(attr, mask | IBV_QP_STATE, poll);
    EXPECT_TRUE(status.ok()) << status;
  };
  link_address.Store({2, 0, 0, 0, 0, 9}, true);
  qp.path.source = Gid::FromIpv4(address);
  qp.path.destination = Gid::FromIpv4(peer.address);
  qp.path.link = &link_address;
  attr.dest_qp_num = peer.endpoint->qp.qpn().value;
  modify(IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
  modify(IBV_QPS_RTR,
         (ud ? 0 : kPath) | (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0));
  modify(IBV_QPS_RTS, IBV_QP_SQ_PSN | (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                                IBV_QP_MAX_QP_RD_ATOMIC
                                          : 0));
}

int TestNode::PostSend(ibv_wr_opcode opcode, uint64_t wr_id, const void* data, uint32_t length,
                       uint64_t remote, uint32_t rkey, int flags) {
  ibv_sge sge{reinterpret_cast<uint64_t>(data), length, key};
  ibv_send_wr wr{};
  wr.wr_id = wr_id;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = opcode;
  wr.send_flags = flags;
  wr.imm_data = 0x01020304;
  if (opcode == IBV_WR_SEND_WITH_INV || opcode == IBV_WR_LOCAL_INV) wr.invalidate_rkey = rkey;
  if (opcode == IBV_WR_LOCAL_INV) wr.num_sge = 0;
  wr.wr.rdma.remote_addr = remote;
  wr.wr.rdma.rkey = rkey;
  return endpoint->qp.PostSend(&wr, nullptr);
}

int TestNode::PostAtomic(ibv_wr_opcode opcode, uint64_t wr_id, void* result, uint64_t remote,
                         uint32_t rkey, uint64_t compare_add, uint64_t swap) {
  ibv_sge sge{reinterpret_cast<uint64_t>(result), 8, key};
  ibv_send_wr wr{};
  wr.wr_id = wr_id;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.atomic = {.remote_addr = remote, .compare_add = compare_add, .swap = swap, .rkey = rkey};
  return endpoint->qp.PostSend(&wr, nullptr);
}

int TestNode::PostRecv(uint64_t wr_id, void* data, uint32_t length) {
  ibv_sge sge{reinterpret_cast<uint64_t>(data), length, key};
  ibv_recv_wr wr{};
  wr.wr_id = wr_id;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  return endpoint->qp.srq() != nullptr ? srq.PostRecv(&wr, nullptr)
                                       : endpoint->qp.PostRecv(&wr, nullptr);
}

std::vector<ibv_wc> TestNode::Poll() {
  std::vector<ibv_wc> all(cq.capacity());
  all.resize(cq.Poll(static_cast<int>(all.size()), all.data()));
  return all;
}

ibv_qp_attr TestPair::DefaultAttr() {
  ibv_qp_attr attr{};
  attr.port_num = 1;
  attr.path_mtu = IBV_MTU_1024;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
                         IBV_ACCESS_REMOTE_ATOMIC | memory::kAccessFlushGlobal;
  attr.qkey = 0x11111111;
  attr.sq_psn = attr.rq_psn = 0xFFFFF0;  // wraps soon
  attr.max_rd_atomic = attr.max_dest_rd_atomic = 16;
  attr.min_rnr_timer = 1;
  attr.timeout = 14;
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  return attr;
}

TestPair::TestPair(ibv_qp_type type, const ibv_qp_attr* attr, bool shared,
                   const DcqcnParameters* dcqcn, uint32_t first_msn)
    : a("pair_a", Qpn{0x111}, 0xC0000201, type,
        {.max_send_wr = 256,
         .max_recv_wr = 256,
         .max_send_sge = 4,
         .max_recv_sge = 4,
         .max_inline_data = 64},
        shared, dcqcn, first_msn),
      b("pair_b", Qpn{0x222}, 0xC0000202, type,
        {.max_send_wr = 256,
         .max_recv_wr = 256,
         .max_send_sge = 4,
         .max_recv_sge = 4,
         .max_inline_data = 64},
        shared, dcqcn, first_msn) {
  const ibv_qp_attr use = attr != nullptr ? *attr : DefaultAttr();
  a.Connect(b, use);
  b.Connect(a, use);
}

TestPair::~TestPair() {
  // Frames travel between the pools: all must be home before either pool is checked.
  for (TestNode* node : {&a, &b}) {
    for (rte_mbuf* frame : node->outgoing) rte_pktmbuf_free(frame);
    node->outgoing.clear();
  }
}

bool TestPair::Deliver(TestNode& from, TestNode& to) {
  if (from.outgoing.empty()) return false;
  rte_mbuf* frame = from.outgoing.front();
  from.outgoing.pop_front();
  const auto parse = [&](wire::RocePacket* packet) {
    return wire::ParseRocePacket(rte_pktmbuf_mtod(frame, const uint8_t*), frame->data_len, packet);
  };
  wire::RocePacket packet;
  EXPECT_EQ(parse(&packet), wire::ParseResult::kOk);
  const PacketAction action = hook ? hook(&from == &a, packet, frame) : PacketAction::kDeliver;
  // The hook may have written into the frame.
  const int times = action == PacketAction::kDrop ? 0 : action == PacketAction::kDuplicate ? 2 : 1;
  for (int i = 0; i < times; ++i) {
    PollContext context = to.context(now_ns);
    ++to.counters.rcvd_pkts;
    constexpr uint32_t kAddressVersion = 1;
    if (frame->data_len >= wire::ExpectedHeaders::kMinFrameBytes &&
        to.endpoint->TryExpectedFrame(rte_pktmbuf_mtod(frame, const uint8_t*), frame->data_len,
                                      context, kAddressVersion)) {
      continue;
    }
    if (parse(&packet) == wire::ParseResult::kOk) {
      to.endpoint->OnPacket(packet, context, kAddressVersion);
    }
  }
  rte_pktmbuf_free(frame);
  return true;
}

bool TestPair::Service(TestNode& node) {
  PollContext context = node.context(now_ns);
  bool worked = false;
  if (node.endpoint->deadline_ns() <= now_ns) {
    node.endpoint->OnDeadline(context);
    worked = true;
  }
  if (verbs::QueuePair* qp = node.active.owed_acks().Pop()) {
    if (!Endpoint::Of(qp)->Acknowledge(context)) qp->ActivateAck();
    worked = true;
  }
  if (verbs::QueuePair* qp = node.active.Pop()) {
    if (Endpoint::Of(qp)->Transmit(context, 32)) qp->Activate();
    worked = true;
  }
  node.egress.Flush(now_ns);
  node.endpoint->qp.DeliverEvents();
  return worked;
}

void TestPair::Run() {
  for (int turns = 0; turns < 1'000'000; ++turns) {
    bool worked = Service(a) | Service(b);
    for (int i = 0; i < 32; ++i) worked |= Deliver(a, b) | Deliver(b, a);
    if (!worked) return;
  }
  ADD_FAILURE() << "no end in sight";
}

bool TestPair::Wait() {
  const uint64_t next = std::min(a.endpoint->deadline_ns(), b.endpoint->deadline_ns());
  if (next == Endpoint::kNever) return false;
  now_ns = std::max(now_ns, next);
  Run();
  return true;
}

void TestPair::RunToEnd() {
  Run();
  for (int waits = 0; waits < 10'000; ++waits) {
    if (!Wait()) return;
  }
  ADD_FAILURE() << "no end in sight";
}

}  // namespace pollux::transport
