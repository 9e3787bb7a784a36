// What a program does that the manuals of libibverbs have an error for: the documented error, and
// everything else still works.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "compat/runtime/settings.h"
#include "compat/verbs/reliable_qp_for_test.h"

namespace pollux::compat {
namespace {

// A port whose frames nobody takes: for what is refused before it leaves.
constexpr char kPort[] = "port=net_ring0\naddress=192.0.2.1/24\nmemory=128\n";
constexpr uint32_t kDepth = 16;

class MisuseTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { setenv(kSettingsVariable, kPort, 1); }
  void SetUp() override {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    ASSERT_EQ(count, 1);
    context_ = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    ASSERT_NE(context_, nullptr);
    pd_ = ibv_alloc_pd(context_);
    channel_ = ibv_create_comp_channel(context_);
    cq_ = ibv_create_cq(context_, kDepth, nullptr, channel_, 0);
    ASSERT_TRUE(pd_ != nullptr && channel_ != nullptr && cq_ != nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    EXPECT_EQ(ibv_destroy_comp_channel(channel_), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd_), 0);
    EXPECT_EQ(ibv_close_device(context_), 0);
  }

  ibv_qp* MakeQp(ibv_srq* srq = nullptr, uint32_t max_recv_wr = kDepth) {
    ibv_qp_init_attr init = ReliableQp(kDepth);
    init.send_cq = init.recv_cq = cq_;
    init.srq = srq;
    init.cap.max_recv_wr = max_recv_wr;
    return ibv_create_qp(pd_, &init);
  }
  // That ibv_wr_rdma_write(), ibv_wr_rdma_read() and ibv_wr_atomic_write() build for.
  ibv_qp* MakeBuilder() {
    ibv_qp_init_attr_ex init{};
    init.send_cq = init.recv_cq = cq_;
    init.cap = ReliableQp(kDepth).cap;
    init.qp_type = IBV_QPT_RC;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.pd = pd_;
    init.send_ops_flags =
        IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_WRITE;
    return ibv_create_qp_ex(context_, &init);
  }
  ibv_wc AwaitCompletion() {
    ibv_wc wc{};
    while (ibv_poll_cq(cq_, 1, &wc) == 0) {
    }
    return wc;
  }
  // In RTS, with the Q_Key 0.
  ibv_qp* MakeDatagramQp() {
    ibv_qp_init_attr init = ReliableQp(kDepth);
    init.send_cq = init.recv_cq = cq_;
    init.qp_type = IBV_QPT_UD;
    ibv_qp* qp = ibv_create_qp(pd_, &init);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    constexpr int kToInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
    EXPECT_EQ(ibv_modify_qp(qp, &attr, kToInit), 0);
    EXPECT_EQ(Move(qp, IBV_QPS_RTR), 0);
    attr.qp_state = IBV_QPS_RTS;
    EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
    return qp;
  }
  int Move(ibv_qp* qp, ibv_qp_state state, unsigned access = 0) {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    attr.port_num = 1;
    attr.qp_access_flags = access;
    const int more =
        state == IBV_QPS_INIT ? IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS : 0;
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE | more);
  }
  // Its peer is the queue pair of this number at the same port.
  void Connect(ibv_qp* qp, uint32_t peer, uint8_t timeout) {
    ReliablePeer at_same_port = PeerAtSamePort(context_, peer);
    at_same_port.access = IBV_ACCESS_REMOTE_WRITE;
    at_same_port.timeout = timeout;
    at_same_port.reads = 1;
    ASSERT_EQ(MoveToRts(qp, at_same_port), 0);
  }
  // Moves the two to RTS, each the other's peer.
  void Join(ibv_qp* one, ibv_qp* other) {
    constexpr uint8_t kTimeout = 14;
    ASSERT_NO_FATAL_FAILURE(Connect(one, other->qp_num, kTimeout));
    ASSERT_NO_FATAL_FAILURE(Connect(other, one->qp_num, kTimeout));
  }
  // As many requests as the queue takes; expects that the last one is named as the bad one.
  template <class Request, class Post>
  uint32_t Fill(Request request, Post post) {
    for (uint32_t count = 0; count < 1000; ++count) {
      Request* bad = nullptr;
      if (const int error = post(&request, &bad); error != 0) {
        EXPECT_EQ(error, ENOMEM);
        EXPECT_EQ(bad, &request);
        return count;
      }
    }
    ADD_FAILURE() << "a queue without an end";
    return 0;
  }

  // A peer's WRITE to a region whose memory the program has unmapped. `sleeps`: it waits for the
  // announcement of the completion.
  void WriteToMemoryThatHasGone(bool sleeps) {
    constexpr size_t kBytes = 1 << 20;
    ibv_qp *writer = MakeQp(), *target = MakeQp();
    Join(writer, target);
    void* memory =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    ibv_mr* to = ibv_reg_mr(pd_, memory, kBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    std::vector<char> text(kBytes, 'w');
    ibv_mr* from = ibv_reg_mr(pd_, text.data(), text.size(), 0);
    ASSERT_TRUE(to != nullptr && from != nullptr);
    ASSERT_EQ(munmap(memory, kBytes), 0);
    ibv_sge element = {.addr = reinterpret_cast<uint64_t>(text.data()),
                       .length = static_cast<uint32_t>(text.size()),
                       .lkey = from->lkey};
    ibv_send_wr write{};
    write.sg_list = &element;
    write.num_sge = 1;
    write.opcode = IBV_WR_RDMA_WRITE;
    write.send_flags = IBV_SEND_SIGNALED;
    write.wr.rdma = {.remote_addr = reinterpret_cast<uint64_t>(memory), .rkey = to->rkey};
    ibv_send_wr* bad = nullptr;
    if (sleeps) {
      ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
    }
    ASSERT_EQ(ibv_post_send(writer, &write, &bad), 0);
    if (sleeps) {
      ibv_cq* announced = nullptr;
      void* user = nullptr;
      ASSERT_EQ(ibv_get_cq_event(channel_, &announced, &user), 0);
      ibv_ack_cq_events(announced, 1);
    }
    ibv_wc completion{};
    while (ibv_poll_cq(cq_, 1, &completion) == 0) {
    }
    EXPECT_EQ(completion.status, IBV_WC_SUCCESS) << ibv_wc_status_str(completion.status);
    EXPECT_EQ(ibv_destroy_qp(writer), 0);
    EXPECT_EQ(ibv_destroy_qp(target), 0);
    EXPECT_EQ(ibv_dereg_mr(to), 0);
    EXPECT_EQ(ibv_dereg_mr(from), 0);
    EXPECT_EQ(munmap(memory, kBytes), 0);
  }

  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
};

TEST_F(MisuseTest, DestroyingAnObjectInUseFailsWithEbusy) {
  std::array<char, 64> memory{};
  ibv_mr* mr = ibv_reg_mr(pd_, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  ibv_srq_init_attr srq_init{};
  srq_init.attr = {.max_wr = kDepth, .max_sge = 1, .srq_limit = 0};
  ibv_srq* srq = ibv_create_srq(pd_, &srq_init);
  ASSERT_NE(srq, nullptr);
  ibv_qp* qp = MakeQp(srq);
  ASSERT_NE(qp, nullptr);
  for (int twice = 0; twice < 2; ++twice) {
    EXPECT_EQ(ibv_dealloc_pd(pd_), EBUSY);
    EXPECT_EQ(ibv_destroy_cq(cq_), EBUSY);
    EXPECT_EQ(ibv_destroy_srq(srq), EBUSY);
    EXPECT_EQ(ibv_destroy_comp_channel(channel_), EBUSY);
  }
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd_), EBUSY);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(MisuseTest, PostsInTheWrongStateAreRefused) {
  ibv_qp* qp = MakeQp();
  ibv_send_wr send{};
  send.opcode = IBV_WR_SEND;
  ibv_recv_wr receive{};
  ibv_send_wr* bad_send = nullptr;
  ibv_recv_wr* bad_receive = nullptr;
  EXPECT_EQ(ibv_post_send(qp, &send, &bad_send), EINVAL);
  EXPECT_EQ(bad_send, &send);
  EXPECT_EQ(ibv_post_recv(qp, &receive, &bad_receive), EINVAL);
  EXPECT_EQ(bad_receive, &receive);
  EXPECT_EQ(Move(qp, IBV_QPS_RTS), EINVAL);
  EXPECT_EQ(qp->state, IBV_QPS_RESET);
  ASSERT_EQ(Move(qp, IBV_QPS_INIT), 0);
  EXPECT_EQ(ibv_post_recv(qp, &receive, &bad_receive), 0);
  EXPECT_EQ(ibv_post_send(qp, &send, &bad_send), EINVAL);
  ASSERT_EQ(Move(qp, IBV_QPS_ERR), 0);
  EXPECT_EQ(ibv_post_send(qp, &send, &bad_send), 0) << "to be flushed";
  std::array<ibv_wc, 4> completions{};
  ASSERT_EQ(ibv_poll_cq(cq_, completions.size(), completions.data()), 2);
  EXPECT_EQ(completions[0].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(completions[1].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(MisuseTest, PsnsAreCutTo24Bits) {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq_;
  init.qp_type = IBV_QPT_UC;
  ibv_qp* qp = ibv_create_qp(pd_, &init);
  ASSERT_NE(qp, nullptr);
  ASSERT_EQ(Move(qp, IBV_QPS_INIT), 0);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = qp->qp_num;
  attr.rq_psn = 0xFF000001;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  ASSERT_EQ(ibv_query_gid(context_, 1, 0, &attr.ah_attr.grh.dgid), 0);
  ASSERT_EQ(
      ibv_modify_qp(qp, &attr,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN),
      0);
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = UINT32_MAX;
  ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
  ASSERT_EQ(ibv_query_qp(qp, &attr, IBV_QP_RQ_PSN | IBV_QP_SQ_PSN, &init), 0);
  EXPECT_EQ(attr.rq_psn, 1u);
  EXPECT_EQ(attr.sq_psn, 0xFFFFFFu);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(MisuseTest, PostsToFullReceiveQueuesFail) {
  ibv_srq_init_attr srq_init{};
  srq_init.attr = {.max_wr = kDepth, .max_sge = 1, .srq_limit = 0};
  ibv_srq* srq = ibv_create_srq(pd_, &srq_init);
  ASSERT_NE(srq, nullptr);
  EXPECT_EQ(
      Fill(ibv_recv_wr{}, [&](auto* wr, auto** bad) { return ibv_post_srq_recv(srq, wr, bad); }),
      srq_init.attr.max_wr);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  ibv_qp* qp = MakeQp();
  ASSERT_EQ(Move(qp, IBV_QPS_INIT), 0);
  EXPECT_GE(Fill(ibv_recv_wr{}, [&](auto* wr, auto** bad) { return ibv_post_recv(qp, wr, bad); }),
            kDepth);
  std::array<ibv_sge, 8> many{};
  ibv_recv_wr wide{};
  wide.sg_list = many.data();
  wide.num_sge = many.size();
  ibv_recv_wr* bad = nullptr;
  EXPECT_NE(ibv_post_recv(qp, &wide, &bad), 0);
  EXPECT_EQ(bad, &wide);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(MisuseTest, PostsToAFullSendQueueFail) {
  ibv_qp *qp = MakeQp(), *silent = MakeQp();
  ASSERT_NO_FATAL_FAILURE(Connect(qp, silent->qp_num, /*timeout=*/0));
  ibv_send_wr send{};
  send.opcode = IBV_WR_SEND;
  EXPECT_GE(Fill(send, [&](auto* wr, auto** bad) { return ibv_post_send(qp, wr, bad); }), kDepth);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_qp(silent), 0);
}

// What stands before such a request in its chain is posted.
TEST_F(MisuseTest, InvalidSendsAreRefused) {
  constexpr uint32_t kTooLong = 4096;  // for inline data
  constexpr int kRefused = 7;
  ibv_qp *qp = MakeQp(), *silent = MakeQp();
  ASSERT_NO_FATAL_FAILURE(Connect(qp, silent->qp_num, /*timeout=*/0));
  std::array<char, kTooLong> text{};
  std::array<ibv_sge, 8> elements{};
  elements[0] = {.addr = reinterpret_cast<uint64_t>(text.data()), .length = kTooLong, .lkey = 0};
  const auto refuses = [&](const ibv_send_wr& request) {
    ibv_send_wr first{}, second = request;
    first.opcode = IBV_WR_SEND;
    first.next = &second;
    second.sg_list = elements.data();
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp, &first, &bad) == EINVAL && bad == &second && first.next == &second;
  };
  EXPECT_TRUE(refuses({.num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE}));
  EXPECT_TRUE(refuses({.num_sge = elements.size(), .opcode = IBV_WR_SEND}));
  EXPECT_TRUE(refuses({.num_sge = -1, .opcode = IBV_WR_SEND}));
  EXPECT_TRUE(refuses({.num_sge = 1, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_INLINE}));
  EXPECT_TRUE(refuses({.num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD})) << "of many bytes";
  EXPECT_TRUE(refuses({.opcode = IBV_WR_TSO}));
  EXPECT_TRUE(refuses({.opcode = IBV_WR_DRIVER1}));
  ASSERT_EQ(Move(qp, IBV_QPS_ERR), 0);
  std::array<ibv_wc, kDepth> flushed{};
  EXPECT_EQ(ibv_poll_cq(cq_, flushed.size(), flushed.data()), kRefused);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_qp(silent), 0);
}

TEST_F(MisuseTest, AChainPostsOnlyRequestsBuiltSinceItsStart) {
  ibv_qp *writer = MakeBuilder(), *target = MakeQp();
  ASSERT_TRUE(writer != nullptr && target != nullptr);
  Join(writer, target);
  ibv_qp_ex* const builder = ibv_qp_to_qp_ex(writer);
  const auto build = [builder](const std::vector<uint64_t>& ids) {
    ibv_wr_start(builder);
    for (const uint64_t id : ids) {
      builder->wr_id = id;
      builder->wr_flags = IBV_SEND_SIGNALED;
      ibv_wr_rdma_write(builder, 0, 0);
    }
  };
  build({1, 2, 3});
  EXPECT_EQ(ibv_wr_complete(builder), 0);
  build({4});
  EXPECT_EQ(ibv_wr_complete(builder), 0);
  build({100, 101});
  ibv_wr_abort(builder);
  build({});
  EXPECT_EQ(ibv_wr_complete(builder), 0);
  build({5});
  EXPECT_EQ(ibv_wr_complete(builder), 0);
  for (uint64_t id = 1; id <= 5; ++id) {
    const ibv_wc wc = AwaitCompletion();
    EXPECT_EQ(wc.wr_id, id);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  }
  EXPECT_EQ(ibv_destroy_qp(writer), 0);
  EXPECT_EQ(ibv_destroy_qp(target), 0);
}

TEST_F(MisuseTest, AnAtomicWriteTakesItsBytesWhenItIsBuilt) {
  ibv_qp *writer = MakeBuilder(), *target = MakeQp();
  ASSERT_TRUE(writer != nullptr && target != nullptr);
  Join(writer, target);
  alignas(8) uint64_t word = 0;
  ibv_mr* mr =
      ibv_reg_mr(pd_, &word, sizeof word, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  ASSERT_NE(mr, nullptr);
  ibv_qp_ex* const builder = ibv_qp_to_qp_ex(writer);
  const auto write = [&](uint64_t value, uint64_t remote) {
    ibv_wr_start(builder);
    builder->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_atomic_write(builder, mr->rkey, remote, &value);
    value = 0;
    return ibv_wr_complete(builder);
  };
  const auto remote = reinterpret_cast<uintptr_t>(&word);
  EXPECT_EQ(write(1, remote + 4), EINVAL);
  EXPECT_EQ(write(0x0123456789ABCDEF, remote), 0);
  EXPECT_EQ(AwaitCompletion().opcode, IBV_WC_ATOMIC_WRITE);
  EXPECT_EQ(std::atomic_ref(word).load(), 0x0123456789ABCDEFu);
  EXPECT_EQ(ibv_destroy_qp(writer), 0);
  EXPECT_EQ(ibv_destroy_qp(target), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(MisuseTest, ARefusedChainPostsNothing) {
  ibv_qp *writer = MakeBuilder(), *silent = MakeQp();
  ASSERT_NO_FATAL_FAILURE(Connect(writer, silent->qp_num, /*timeout=*/0));
  ibv_qp_ex* const builder = ibv_qp_to_qp_ex(writer);
  const auto build = [builder](uint32_t count) {
    ibv_wr_start(builder);
    builder->wr_flags = 0;
    for (uint32_t i = 0; i < count; ++i) ibv_wr_rdma_write(builder, 0, 0);
  };
  build(kDepth + 1);
  EXPECT_EQ(ibv_wr_complete(builder), ENOMEM);
  build(2);
  const ibv_sge elements[2] = {};
  ibv_wr_set_sge_list(builder, 2, elements);
  EXPECT_EQ(ibv_wr_complete(builder), EINVAL);
  build(2);
  builder->wr_flags = IBV_SEND_INLINE;
  ibv_wr_rdma_read(builder, 0, 0);
  EXPECT_EQ(ibv_wr_complete(builder), EINVAL) << "found when it is posted";
  build(kDepth - 1);
  EXPECT_EQ(ibv_wr_complete(builder), 0);
  build(2);
  EXPECT_EQ(ibv_wr_complete(builder), ENOMEM);
  build(1);
  EXPECT_EQ(ibv_wr_complete(builder), 0);
  build(1);
  EXPECT_EQ(ibv_wr_complete(builder), ENOMEM);
  ASSERT_EQ(Move(writer, IBV_QPS_ERR), 0);
  std::array<ibv_wc, 2 * kDepth> flushed{};
  EXPECT_EQ(ibv_poll_cq(cq_, flushed.size(), flushed.data()), static_cast<int>(kDepth));
  EXPECT_EQ(ibv_destroy_qp(writer), 0);
  EXPECT_EQ(ibv_destroy_qp(silent), 0);
}

TEST_F(MisuseTest, OverrunOfACompletionQueueRaisesCqErr) {
  constexpr uint32_t kMany = 1000;
  ibv_qp* qp = MakeQp(nullptr, kMany);
  ASSERT_NE(qp, nullptr);
  ASSERT_EQ(Move(qp, IBV_QPS_INIT), 0);
  ibv_recv_wr receive{};
  ibv_recv_wr* bad = nullptr;
  for (uint32_t i = 0; i < kMany; ++i) ASSERT_EQ(ibv_post_recv(qp, &receive, &bad), 0);
  ASSERT_EQ(Move(qp, IBV_QPS_ERR), 0);
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(event.element.cq, cq_);
  ibv_ack_async_event(&event);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

// libfabric polls once more when it has destroyed one: it wants to know what was sent, and what was
// received it would answer on a queue pair that is no more.
TEST_F(MisuseTest, ReceivesOfADestroyedQueuePairAreNotPolled) {
  constexpr uint64_t kSend = 3;
  ibv_qp *first = MakeQp(), *second = MakeQp();
  for (ibv_qp* qp : {first, second}) {
    ASSERT_EQ(Move(qp, IBV_QPS_INIT), 0);
    ASSERT_EQ(Move(qp, IBV_QPS_ERR), 0);
    for (uint64_t wr_id = 1; wr_id <= 2; ++wr_id) {
      ibv_recv_wr receive{};
      receive.wr_id = wr_id;
      ibv_recv_wr* bad = nullptr;
      ASSERT_EQ(ibv_post_recv(qp, &receive, &bad), 0);
    }
    ibv_send_wr send{};
    send.wr_id = kSend;
    send.opcode = IBV_WR_SEND;
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(qp, &send, &bad), 0);
  }
  const std::vector<std::pair<uint32_t, uint64_t>> left = {
      {first->qp_num, kSend}, {second->qp_num, 1}, {second->qp_num, 2}, {second->qp_num, kSend}};
  EXPECT_EQ(ibv_destroy_qp(first), 0);
  std::array<ibv_wc, 8> completions{};
  const int count = ibv_poll_cq(cq_, completions.size(), completions.data());
  std::vector<std::pair<uint32_t, uint64_t>> polled;
  for (int i = 0; i < count; ++i) polled.emplace_back(completions[i].qp_num, completions[i].wr_id);
  EXPECT_EQ(polled, left);
  EXPECT_EQ(ibv_destroy_qp(second), 0);
}

// Another handle may have the place of the first one when the sends that name that leave.
TEST_F(MisuseTest, AddressHandlesMayBeDestroyedBeforeTheirSends) {
  ibv_qp* const sender = MakeDatagramQp();
  ibv_qp* const receiver = MakeDatagramQp();
  std::array<uint8_t, 64> bytes{};
  ibv_mr* mr = ibv_reg_mr(pd_, bytes.data(), bytes.size(), IBV_ACCESS_LOCAL_WRITE);
  ibv_sge element{reinterpret_cast<uintptr_t>(bytes.data()), bytes.size(), mr->lkey};
  ibv_recv_wr receive{};
  receive.sg_list = &element;
  receive.num_sge = 1;
  ibv_recv_wr* bad_receive = nullptr;
  ASSERT_EQ(ibv_post_recv(receiver, &receive, &bad_receive), 0);

  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.hop_limit = 1;
  ASSERT_EQ(ibv_query_gid(context_, 1, 0, &attr.grh.dgid), 0);
  ibv_ah* own = ibv_create_ah(pd_, &attr);
  ASSERT_NE(own, nullptr);
  ASSERT_EQ(Move(sender, IBV_QPS_SQD), 0);
  ibv_send_wr send{};
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_SIGNALED;
  send.wr.ud.ah = own;
  send.wr.ud.remote_qpn = receiver->qp_num;
  ibv_send_wr* bad_send = nullptr;
  ASSERT_EQ(ibv_post_send(sender, &send, &bad_send), 0);
  EXPECT_EQ(ibv_destroy_ah(own), 0);
  EXPECT_EQ(ibv_destroy_ah(own), EINVAL) << "once";
  attr.grh.dgid.raw[0] = 0xFF;  // a group
  ibv_ah* other = ibv_create_ah(pd_, &attr);
  ASSERT_NE(other, nullptr);
  ASSERT_EQ(Move(sender, IBV_QPS_RTS), 0);
  for (int completions = 0; completions < 2;) {
    ibv_wc wc{};
    const int polled = ibv_poll_cq(cq_, 1, &wc);
    ASSERT_GE(polled, 0);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    completions += polled;
  }
  EXPECT_EQ(ibv_destroy_ah(other), 0);

  // Those of a queue pair that goes with them.
  send.wr.ud.ah = ibv_create_ah(pd_, &attr);
  ASSERT_EQ(Move(sender, IBV_QPS_SQD), 0);
  ASSERT_EQ(ibv_post_send(sender, &send, &bad_send), 0);
  EXPECT_EQ(ibv_destroy_ah(send.wr.ud.ah), 0);
  EXPECT_EQ(ibv_destroy_qp(sender), 0);
  EXPECT_EQ(ibv_destroy_qp(receiver), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(MisuseTest, InvalidAttributesCreateNoObject) {
  EXPECT_EQ(ibv_create_cq(context_, 0, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_create_cq(context_, kDepth, nullptr, nullptr, 1), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_create_cq(context_, INT32_MAX, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_RC;
  EXPECT_EQ(ibv_create_qp(pd_, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
  init.send_cq = init.recv_cq = cq_;
  init.cap.max_send_wr = 1u << 30;
  EXPECT_EQ(ibv_create_qp(pd_, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
  init.qp_type = IBV_QPT_RAW_PACKET;
  EXPECT_EQ(ibv_create_qp(pd_, &init), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  char byte = 0;
  EXPECT_EQ(ibv_reg_mr(pd_, &byte, 0, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_reg_mr(pd_, &byte, 1, IBV_ACCESS_REMOTE_WRITE), nullptr) << "not even local";
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_reg_mr(pd_, &byte, 1, IBV_ACCESS_ON_DEMAND), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(ibv_reg_mr(pd_, &byte, 1, 1 << 15), nullptr) << "what nobody knows";
  EXPECT_EQ(errno, EINVAL);
  ibv_mr* mr = ibv_reg_mr(pd_, &byte, 1, 0);
  EXPECT_EQ(ibv_rereg_mr(mr, 0, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  ibv_srq_init_attr none{};
  none.attr.max_sge = 1;
  EXPECT_EQ(ibv_create_srq(pd_, &none), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(MisuseTest, MemoryMayBeUnmappedBeforeItsRegion) {
  constexpr size_t kBytes = 1 << 20;
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ibv_mr* mr = ibv_reg_mr(pd_, memory, kBytes, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  ASSERT_EQ(munmap(memory, kBytes), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(MisuseTest, RegisteringUnmappedMemoryFailsWithEfault) {
  constexpr size_t kBytes = 1 << 20;
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ibv_mr* mr = ibv_reg_mr(pd_, memory, kBytes, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  ASSERT_EQ(munmap(static_cast<char*>(memory) + kBytes / 2, kBytes / 2), 0);
  EXPECT_EQ(ibv_reg_mr(pd_, memory, kBytes, IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory, kBytes, 0),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  mr = ibv_reg_mr(pd_, static_cast<char*>(memory) + 1, kBytes / 2 - 1, IBV_ACCESS_LOCAL_WRITE);
  EXPECT_NE(mr, nullptr) << "the half that is left";
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(munmap(memory, kBytes / 2), 0);
}

// As adapters, whose pages the kernel takes hold of: a peer that wrote there would end the process.
TEST_F(MisuseTest, RegistrationChecksTheProtectionOfTheMemory) {
  constexpr size_t kBytes = 1 << 14;
  constexpr int kReads = IBV_ACCESS_REMOTE_READ;
  constexpr int kWrites[] = {IBV_ACCESS_LOCAL_WRITE,
                             IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
                             IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_MW_BIND};
  auto* memory = static_cast<char*>(
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  memory[0] = memory[kBytes - 1] = 'x';
  ASSERT_EQ(mprotect(memory + kBytes / 2, kBytes / 2, PROT_READ), 0);
  for (const int access : kWrites) {
    EXPECT_EQ(ibv_reg_mr(pd_, memory, kBytes, access), nullptr) << access;
    EXPECT_EQ(errno, EFAULT);
    ibv_mr* half = ibv_reg_mr(pd_, memory + 1, kBytes / 2 - 1, access);
    ASSERT_NE(half, nullptr) << access << ": the half that may be written to";
    EXPECT_EQ(ibv_dereg_mr(half), 0);
  }
  ibv_mr* mr = ibv_reg_mr(pd_, memory, kBytes, kReads);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kWrites[0]),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_TRANSLATION, nullptr,
                         memory, kBytes / 2, kWrites[0]),
            0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(memory[0], 'x');
  EXPECT_EQ(memory[kBytes - 1], 'x');
  ASSERT_EQ(mprotect(memory, kBytes, PROT_NONE), 0);
  EXPECT_EQ(ibv_reg_mr(pd_, memory, kBytes, kReads), nullptr);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(munmap(memory, kBytes), 0);

  static constexpr char kConstant[] = "a program's own text";
  EXPECT_EQ(ibv_reg_mr(pd_, const_cast<char*>(kConstant), sizeof kConstant, kWrites[0]), nullptr);
  EXPECT_EQ(errno, EFAULT);
  mr = ibv_reg_mr(pd_, const_cast<char*>(kConstant), sizeof kConstant, kReads);
  EXPECT_NE(mr, nullptr);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

// More of it than is looked at in one go.
TEST_F(MisuseTest, RegistrationChecksLargeMemoryToItsEnd) {
  const auto page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t bytes = (32u << 20) + 3 * page_bytes;
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE;
  auto* memory = static_cast<char*>(
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  ibv_mr* mr = ibv_reg_mr(pd_, memory + 1, bytes - 1, kAccess);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  ASSERT_EQ(munmap(memory + bytes - page_bytes, page_bytes), 0);
  EXPECT_EQ(ibv_reg_mr(pd_, memory, bytes, kAccess), nullptr);
  EXPECT_EQ(errno, EFAULT);
  mr = ibv_reg_mr(pd_, memory, bytes - page_bytes, kAccess);
  EXPECT_NE(mr, nullptr);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(munmap(memory, bytes - page_bytes), 0);
}

// Its pages are mapped, and whoever touches them gets SIGBUS.
TEST_F(MisuseTest, RegisteringMemoryBeyondTheEndOfItsFileFails) {
  const auto page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const int file = memfd_create("short", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(file, static_cast<off_t>(page_bytes)), 0);
  void* memory = mmap(nullptr, 2 * page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ASSERT_NE(memory, MAP_FAILED);
  for (const int access : {0, static_cast<int>(IBV_ACCESS_LOCAL_WRITE)}) {
    EXPECT_EQ(ibv_reg_mr(pd_, memory, 2 * page_bytes, access), nullptr) << access;
    EXPECT_EQ(errno, EFAULT);
    ibv_mr* mr = ibv_reg_mr(pd_, memory, page_bytes, access);
    ASSERT_NE(mr, nullptr) << access;
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
  }
  EXPECT_EQ(munmap(memory, 2 * page_bytes), 0);
  close(file);
}

TEST_F(MisuseTest, APeerMayWriteToUnmappedMemory) { WriteToMemoryThatHasGone(/*sleeps=*/false); }

// Another thread than the program's places it then.
TEST_F(MisuseTest, APeerMayWriteToUnmappedMemoryOfASleepingProgram) {
  WriteToMemoryThatHasGone(/*sleeps=*/true);
}

TEST_F(MisuseTest, ADeviceMayBeClosedBeforeItsObjects) {
  ibv_device** list = ibv_get_device_list(nullptr);
  ibv_context* context = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  ibv_pd* pd = ibv_alloc_pd(context);
  ibv_comp_channel* channel = ibv_create_comp_channel(context);
  ibv_cq* cq = ibv_create_cq(context, kDepth, nullptr, channel, 0);
  char byte = 0;
  ibv_mr* mr = ibv_reg_mr(pd, &byte, 1, 0);
  ASSERT_TRUE(pd != nullptr && cq != nullptr && mr != nullptr);
  EXPECT_EQ(ibv_close_device(context), 0);
  EXPECT_EQ(ibv_req_notify_cq(cq, 0), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

TEST_F(MisuseTest, NonBlockingEmptyChannelsReturnEagain) {
  const auto unblock = [](int fd) { return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); };
  ASSERT_EQ(unblock(channel_->fd), 0);
  ASSERT_EQ(unblock(context_->async_fd), 0);
  ibv_cq* cq = nullptr;
  void* user = nullptr;
  EXPECT_EQ(ibv_get_cq_event(channel_, &cq, &user), -1);
  EXPECT_EQ(errno, EAGAIN);
  ibv_async_event event{};
  EXPECT_EQ(ibv_get_async_event(context_, &event), -1);
  EXPECT_EQ(errno, EAGAIN);
  ibv_ack_cq_events(cq_, 5);  // of none
}

}  // namespace
}  // namespace pollux::compat
