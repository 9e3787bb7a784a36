// Objects that several threads use at once: every completion and every event comes to one of them,
// once. One port as both ends.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "compat/rdmacm/cm_peer_for_test.h"
#include "compat/runtime/settings.h"
#include "compat/verbs/reliable_qp_for_test.h"
#include "stack/base/eventually_for_test.h"

namespace pollux::compat {
namespace {

constexpr uint32_t kDepth = 64;
constexpr uint32_t kThreads = 2;
constexpr uint32_t kMessages = 6000;
constexpr uint32_t kMaxBytes = 256;
constexpr uint16_t kPort = 7471;

// How often each of them has come.
class Roll {
 public:
  explicit Roll(size_t count) : times_(count) {}
  void Came(uint64_t number) {
    ASSERT_LT(number, times_.size());
    ++times_[number];
    ++came_;
  }
  uint32_t came() const { return came_; }
  void ExpectEachOnce() const {
    for (size_t i = 0; i < times_.size(); ++i) ASSERT_EQ(times_[i], 1u) << i;
  }

 private:
  std::deque<std::atomic<uint32_t>> times_;
  std::atomic<uint32_t> came_ = 0;
};

class SharedObjectsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { setenv(kSettingsVariable, kPortOfOne, 1); }
  void SetUp() override {
    ibv_device** list = ibv_get_device_list(nullptr);
    context_ = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    ASSERT_NE(context_, nullptr);
    pd_ = ibv_alloc_pd(context_);
    memory_.resize(2 * kMaxBytes);
    mr_ = ibv_reg_mr(pd_, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE);
    send_cq_ = ibv_create_cq(context_, 4 * kDepth, nullptr, nullptr, 0);
    ASSERT_TRUE(pd_ != nullptr && mr_ != nullptr && send_cq_ != nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_destroy_cq(send_cq_), 0);
    EXPECT_EQ(ibv_dereg_mr(mr_), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd_), 0);
    EXPECT_EQ(ibv_close_device(context_), 0);
  }

  // One that signals each send.
  ibv_qp* MakeQp(ibv_cq* recv_cq, ibv_srq* srq = nullptr, uint64_t send_ops = 0) {
    const ibv_qp_init_attr basic = ReliableQp(kDepth);
    ibv_qp_init_attr_ex init{};
    init.send_cq = send_cq_;
    init.recv_cq = recv_cq;
    init.srq = srq;
    init.cap = basic.cap;
    init.qp_type = basic.qp_type;
    init.sq_sig_all = 1;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.pd = pd_;
    init.send_ops_flags = send_ops;
    return ibv_create_qp_ex(context_, &init);
  }
  void Connect(ibv_qp* qp, uint32_t peer) {
    ReliablePeer at_same_port = PeerAtSamePort(context_, peer);
    at_same_port.access = IBV_ACCESS_REMOTE_WRITE;
    at_same_port.timeout = 19;  // 2.1 s: on a busy machine threads stand still for long
    ASSERT_EQ(MoveToRts(qp, at_same_port), 0);
  }
  void Join(ibv_qp* one, ibv_qp* other) {
    ASSERT_TRUE(one != nullptr && other != nullptr);
    ASSERT_NO_FATAL_FAILURE(Connect(one, other->qp_num));
    ASSERT_NO_FATAL_FAILURE(Connect(other, one->qp_num));
  }

  ibv_sge Element(uint32_t at, uint32_t bytes) {
    return {.addr = reinterpret_cast<uint64_t>(memory_.data() + at),
            .length = bytes,
            .lkey = mr_->lkey};
  }
  static uint32_t BytesOf(uint32_t message) { return 1 + message % kMaxBytes; }
  // All messages, numbered by their immediate data; as long as BytesOf() says.
  void SendAll(ibv_qp* qp, uint32_t first = 0, uint32_t end = kMessages) {
    for (uint32_t sent = first, done = first; done < end;) {
      if (sent < end && sent - done < kDepth) {
        ibv_sge element = Element(0, BytesOf(sent));
        ibv_send_wr wr{};
        wr.sg_list = &element;
        wr.num_sge = 1;
        wr.opcode = IBV_WR_SEND_WITH_IMM;
        wr.imm_data = sent;
        ibv_send_wr* bad = nullptr;
        ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
        ++sent;
      }
      ibv_wc completion{};
      const int taken = ibv_poll_cq(send_cq_, 1, &completion);
      ASSERT_GE(taken, 0);
      if (taken == 0) continue;
      ASSERT_EQ(completion.status, IBV_WC_SUCCESS) << ibv_wc_status_str(completion.status);
      ++done;
    }
  }
  // Where what arrives comes to lie is nobody's concern.
  template <class Post>
  int Receive(uint64_t id, Post post) {
    ibv_sge element = Element(kMaxBytes, kMaxBytes);
    ibv_recv_wr wr{};
    wr.wr_id = id;
    wr.sg_list = &element;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    return post(&wr, &bad);
  }
  int Receive(ibv_qp* qp, uint64_t id) {
    return Receive(id,
                   [qp](ibv_recv_wr* wr, ibv_recv_wr** bad) { return ibv_post_recv(qp, wr, bad); });
  }

  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  std::vector<uint8_t> memory_;
  ibv_mr* mr_ = nullptr;
  ibv_cq* send_cq_ = nullptr;
};

// Chains of one to four writes, each of its own number to its own place.
class ChainBuilder {
 public:
  ChainBuilder(ibv_qp* qp, ibv_mr* from, ibv_mr* to)
      : qp_(qp), builder_(ibv_qp_to_qp_ex(qp)), from_(from), to_(to) {}

  void Write(uint32_t begin, uint32_t end, Roll* roll) {
    for (uint32_t next = begin; next < end;) {
      const uint32_t after = std::min(next + 1 + next % 4, end);
      const int error = Post(next, after);
      if (error == 0) next = after;
      ASSERT_TRUE(error == 0 || error == ENOMEM) << error;
      Take(roll);
    }
  }
  void Take(Roll* roll) {
    std::array<ibv_wc, 4> completions{};
    const int taken = ibv_poll_cq(qp_->send_cq, completions.size(), completions.data());
    ASSERT_GE(taken, 0);
    for (int i = 0; i < taken; ++i) {
      ASSERT_EQ(completions[i].status, IBV_WC_SUCCESS);
      roll->Came(completions[i].wr_id);
    }
  }

 private:
  int Post(uint32_t begin, uint32_t end) {
    ibv_wr_start(builder_);
    for (uint32_t i = begin; i < end; ++i) {
      const uint64_t at = i * sizeof(uint32_t);
      builder_->wr_id = i;
      builder_->wr_flags = IBV_SEND_SIGNALED;
      ibv_wr_rdma_write(builder_, to_->rkey, reinterpret_cast<uint64_t>(to_->addr) + at);
      ibv_wr_set_sge(builder_, from_->lkey, reinterpret_cast<uint64_t>(from_->addr) + at,
                     sizeof(uint32_t));
    }
    if (begin % 16 == 0) std::this_thread::yield();
    if (begin % 5 != 0 || std::exchange(aborted_, !aborted_)) return ibv_wr_complete(builder_);
    ibv_wr_abort(builder_);
    return ENOMEM;  // once more
  }

  ibv_qp* qp_;
  ibv_qp_ex* builder_;
  ibv_mr *from_, *to_;
  bool aborted_ = false;
};

TEST_F(SharedObjectsTest, ThreadsBuildRequestsForOneQueuePair) {
  ibv_qp* writer = MakeQp(send_cq_, nullptr, IBV_QP_EX_WITH_RDMA_WRITE);
  ibv_qp* target = MakeQp(send_cq_);
  ASSERT_NO_FATAL_FAILURE(Join(writer, target));
  constexpr uint32_t kWrites = kThreads * kMessages;
  std::vector<uint32_t> from(kWrites), to(kWrites);
  for (uint32_t i = 0; i < kWrites; ++i) from[i] = i + 1;
  ibv_mr* from_mr = ibv_reg_mr(pd_, from.data(), kWrites * sizeof(uint32_t), 0);
  ibv_mr* to_mr = ibv_reg_mr(pd_, to.data(), kWrites * sizeof(uint32_t),
                             IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  ASSERT_TRUE(from_mr != nullptr && to_mr != nullptr);
  Roll roll(kWrites);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      ChainBuilder(writer, from_mr, to_mr).Write(i * kMessages, (i + 1) * kMessages, &roll);
    });
  }
  for (std::thread& thread : threads) thread.join();
  ibv_wc completion{};
  EXPECT_TRUE(Eventually([&] {
    while (ibv_poll_cq(send_cq_, 1, &completion) > 0) roll.Came(completion.wr_id);
    return roll.came() >= kWrites;
  }));
  roll.ExpectEachOnce();
  EXPECT_EQ(from, to);
  EXPECT_EQ(ibv_destroy_qp(writer), 0);
  EXPECT_EQ(ibv_destroy_qp(target), 0);
  EXPECT_EQ(ibv_dereg_mr(from_mr), 0);
  EXPECT_EQ(ibv_dereg_mr(to_mr), 0);
}

// Looks at completions of messages that SendAll() has sent, and replaces their receives.
class Viewer {
 public:
  Viewer(ibv_cq_ex* cq, Roll* receives, Roll* messages)
      : cq_(cq), receives_(receives), messages_(messages) {}

  template <class Replace>
  void LookAtAll(Replace replace) {
    while (messages_->came() < kMessages) {
      ibv_poll_cq_attr attr{};
      int found = ibv_start_poll(cq_, &attr);
      if (found != 0) {
        ASSERT_EQ(found, ENOENT);
        std::this_thread::yield();
        continue;
      }
      uint32_t looked_at = 0;
      for (; found == 0; found = ibv_next_poll(cq_)) {
        ASSERT_NO_FATAL_FAILURE(LookAtOne());
        if (++looked_at == kBatch) break;
      }
      ibv_end_poll(cq_);
      for (; looked_at > 0; --looked_at) replace();
    }
  }

 private:
  static constexpr uint32_t kBatch = 3;

  void LookAtOne() {
    ASSERT_EQ(cq_->status, IBV_WC_SUCCESS);
    const uint64_t receive = cq_->wr_id;
    const uint32_t message = ibv_wc_read_imm_data(cq_);
    std::this_thread::yield();
    ASSERT_EQ(cq_->wr_id, receive);
    ASSERT_EQ(ibv_wc_read_byte_len(cq_), 1 + message % kMaxBytes) << "another's";
    receives_->Came(receive);
    messages_->Came(message);
  }

  ibv_cq_ex* cq_;
  Roll *receives_, *messages_;
};

TEST_F(SharedObjectsTest, ThreadsReadCompletionsOfOneQueue) {
  ibv_cq_init_attr_ex init{};
  init.cqe = 2 * kDepth;
  init.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM;
  ibv_cq_ex* cq = ibv_create_cq_ex(context_, &init);
  ASSERT_NE(cq, nullptr);
  ibv_qp *sender = MakeQp(send_cq_), *receiver = MakeQp(ibv_cq_ex_to_cq(cq));
  ASSERT_NO_FATAL_FAILURE(Join(sender, receiver));
  Roll receives(kMessages), messages(kMessages);
  std::atomic<uint64_t> posted = kDepth;
  for (uint64_t id = 0; id < kDepth; ++id) ASSERT_EQ(Receive(receiver, id), 0);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      Viewer(cq, &receives, &messages).LookAtAll([&] {
        const uint64_t id = posted++;
        if (id < kMessages) {
          EXPECT_EQ(Receive(receiver, id), 0);
        }
      });
    });
  }
  SendAll(sender);
  for (std::thread& thread : threads) thread.join();
  receives.ExpectEachOnce();
  messages.ExpectEachOnce();
  EXPECT_EQ(ibv_destroy_qp(sender), 0);
  EXPECT_EQ(ibv_destroy_qp(receiver), 0);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

TEST_F(SharedObjectsTest, ASingleThreadedQueueHasNoLock) {
  ibv_cq_init_attr_ex init{};
  init.cqe = kDepth;
  init.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  init.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
  ibv_cq_ex* cq = ibv_create_cq_ex(context_, &init);
  ibv_qp* receiver = MakeQp(ibv_cq_ex_to_cq(cq));
  ibv_qp* sender = MakeQp(send_cq_);
  ASSERT_NO_FATAL_FAILURE(Join(sender, receiver));
  constexpr uint32_t kTwo = 2;
  for (uint64_t id = 0; id < kTwo; ++id) ASSERT_EQ(Receive(receiver, id), 0);
  SendAll(sender, 0, kTwo);
  ibv_poll_cq_attr attr{};
  for (uint64_t id = 0; id < kTwo; ++id) {
    ASSERT_EQ(ibv_start_poll(cq, &attr), 0) << "while one is being looked at, as it was told";
    EXPECT_EQ(cq->wr_id, id);
  }
  ibv_end_poll(cq);
  EXPECT_EQ(ibv_destroy_qp(sender), 0);
  EXPECT_EQ(ibv_destroy_qp(receiver), 0);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

TEST_F(SharedObjectsTest, OneThreadPollsWhileAnotherSleepsForTheSameQueue) {
  ibv_comp_channel* channel = ibv_create_comp_channel(context_);
  ibv_cq* cq = ibv_create_cq(context_, 2 * kDepth, nullptr, channel, 0);
  ASSERT_TRUE(channel != nullptr && cq != nullptr);
  ibv_qp *sender = MakeQp(send_cq_), *receiver = MakeQp(cq);
  ASSERT_NO_FATAL_FAILURE(Join(sender, receiver));
  // The last one is for the sleeper, which has nothing to wait for behind it.
  Roll receives(kMessages), messages(kMessages);
  std::atomic<uint64_t> posted = kDepth;
  for (uint64_t id = 0; id < kDepth; ++id) ASSERT_EQ(Receive(receiver, id), 0);
  const auto take_all = [&] {
    ibv_wc completion{};
    while (ibv_poll_cq(cq, 1, &completion) > 0) {
      ASSERT_EQ(completion.status, IBV_WC_SUCCESS);
      receives.Came(completion.wr_id);
      messages.Came(completion.imm_data);
      const uint64_t id = posted++;
      if (id < kMessages) {
        ASSERT_EQ(Receive(receiver, id), 0);
      }
    }
  };
  std::thread poller([&] {
    while (messages.came() < kMessages - 1) take_all();
  });
  std::thread sleeper([&] {
    while (true) {
      ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
      take_all();
      if (messages.came() == kMessages) return;
      ibv_cq* announced = nullptr;
      void* user = nullptr;
      ASSERT_EQ(ibv_get_cq_event(channel, &announced, &user), 0);
      EXPECT_EQ(announced, cq);
      ibv_ack_cq_events(cq, 1);
    }
  });
  SendAll(sender, 0, kMessages - 1);
  poller.join();
  SendAll(sender, kMessages - 1);
  sleeper.join();
  receives.ExpectEachOnce();
  messages.ExpectEachOnce();
  EXPECT_EQ(ibv_destroy_qp(sender), 0);
  EXPECT_EQ(ibv_destroy_qp(receiver), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

TEST_F(SharedObjectsTest, ThreadsFeedOneReceiveQueue) {
  ibv_srq_init_attr init{};
  init.attr = {.max_wr = kDepth, .max_sge = 1, .srq_limit = 0};
  ibv_srq* srq = ibv_create_srq(pd_, &init);
  ibv_cq* cq = ibv_create_cq(context_, 2 * kDepth, nullptr, nullptr, 0);
  ASSERT_TRUE(srq != nullptr && cq != nullptr);
  ibv_qp *sender = MakeQp(send_cq_), *receiver = MakeQp(cq, srq);
  ASSERT_NO_FATAL_FAILURE(Join(sender, receiver));
  Roll receives(kMessages), messages(kMessages);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const auto post = [srq](ibv_recv_wr* wr, ibv_recv_wr** bad) {
        return ibv_post_srq_recv(srq, wr, bad);
      };
      for (uint64_t id = i; id < kMessages;) {
        const int error = Receive(id, post);
        ASSERT_TRUE(error == 0 || error == ENOMEM) << error;
        if (error == 0) id += kThreads;
        ibv_wc completion{};
        if (ibv_poll_cq(cq, 1, &completion) == 0) continue;
        ASSERT_EQ(completion.status, IBV_WC_SUCCESS);
        receives.Came(completion.wr_id);
        messages.Came(completion.imm_data);
      }
    });
  }
  SendAll(sender);
  for (std::thread& thread : threads) thread.join();
  ibv_wc completion{};
  while (ibv_poll_cq(cq, 1, &completion) > 0) {
    receives.Came(completion.wr_id);
    messages.Came(completion.imm_data);
  }
  receives.ExpectEachOnce();
  messages.ExpectEachOnce();
  EXPECT_EQ(ibv_destroy_qp(sender), 0);
  EXPECT_EQ(ibv_destroy_qp(receiver), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

constexpr int kConnections = 24;

// What one thread hears of an identifier that another one makes and destroys.
struct Heard {
  std::array<std::atomic<int>, RDMA_CM_EVENT_TIMEWAIT_EXIT + 1> times{};
  std::atomic<bool> destroyed = false;

  void Await(rdma_cm_event_type type) {
    while (times[type] == 0) std::this_thread::yield();
  }
};

// Takes events until the one of `last` comes.
void Hear(rdma_event_channel* channel, const Heard& last) {
  for (bool enough = false; !enough;) {
    rdma_cm_event* event = nullptr;
    ASSERT_EQ(rdma_get_cm_event(channel, &event), 0);
    auto* heard = static_cast<Heard*>(event->id->context);
    EXPECT_FALSE(heard->destroyed);
    // Of one that is being destroyed, whose address nobody may look at any more.
    const bool goes = event->event == RDMA_CM_EVENT_ADDR_ERROR;
    EXPECT_EQ(event->status, goes ? -ENODEV : 0) << rdma_event_str(event->event);
    enough = heard == &last;
    ++heard->times[event->event];
    ASSERT_EQ(rdma_ack_cm_event(event), 0);
  }
}

void Accept(rdma_event_channel* channel) {
  for (int left = kConnections; left > 0;) {
    rdma_cm_event* event = nullptr;
    ASSERT_EQ(rdma_get_cm_event(channel, &event), 0);
    rdma_cm_id* const id = event->id;
    const rdma_cm_event_type type = event->event;
    ASSERT_EQ(rdma_ack_cm_event(event), 0);
    if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      ASSERT_EQ(MakeQp(id, 1), 0);
      rdma_conn_param param{};
      ASSERT_EQ(rdma_accept(id, &param), 0);
    } else if (type == RDMA_CM_EVENT_DISCONNECTED) {
      rdma_destroy_qp(id);
      ASSERT_EQ(rdma_destroy_id(id), 0);
      --left;
    } else if (type != RDMA_CM_EVENT_TIMEWAIT_EXIT) {
      ASSERT_EQ(type, RDMA_CM_EVENT_ESTABLISHED) << rdma_event_str(type);
    }
  }
}

rdma_cm_id* Resolve(rdma_event_channel* channel, Heard* heard) {
  rdma_cm_id* id = nullptr;
  EXPECT_EQ(rdma_create_id(channel, &id, heard, RDMA_PS_TCP), 0);
  Ipv4Address address(kAddressOfOne, kPort);
  EXPECT_EQ(rdma_resolve_addr(id, nullptr, address.get(), kResolveTimeoutMs), 0);
  return id;
}

void Destroy(rdma_cm_id* id, Heard* heard) {
  EXPECT_EQ(rdma_destroy_id(id), 0);
  heard->destroyed = true;
}

void ConnectAndDestroy(rdma_event_channel* channel, Heard* heard) {
  rdma_cm_id* id = Resolve(channel, heard);
  heard->Await(RDMA_CM_EVENT_ADDR_RESOLVED);
  ASSERT_EQ(rdma_resolve_route(id, kResolveTimeoutMs), 0);
  heard->Await(RDMA_CM_EVENT_ROUTE_RESOLVED);
  ASSERT_EQ(MakeQp(id, 1), 0);
  rdma_conn_param param{};
  param.retry_count = 7;
  ASSERT_EQ(rdma_connect(id, &param), 0);
  heard->Await(RDMA_CM_EVENT_ESTABLISHED);
  ASSERT_EQ(rdma_disconnect(id), 0);
  heard->Await(RDMA_CM_EVENT_DISCONNECTED);
  rdma_destroy_qp(id);
  Destroy(id, heard);
}

TEST_F(SharedObjectsTest, AThreadReadsEventsOfIdentifiersThatAnotherDestroys) {
  rdma_event_channel* listening = rdma_create_event_channel();
  rdma_event_channel* channel = rdma_create_event_channel();
  rdma_cm_id* listener = nullptr;
  ASSERT_EQ(rdma_create_id(listening, &listener, nullptr, RDMA_PS_TCP), 0);
  ASSERT_EQ(Bind(listener, kAddressOfOne, kPort), 0);
  ASSERT_EQ(rdma_listen(listener, kConnections), 0);
  std::vector<Heard> connected(kConnections), hasty(kConnections);
  Heard last;
  std::thread acceptor([&] { Accept(listening); });
  std::thread hearer([&] { Hear(channel, last); });
  for (int i = 0; i < kConnections; ++i) {
    // Its event is heard before its end, or never.
    Destroy(Resolve(channel, &hasty[i]), &hasty[i]);
    ASSERT_NO_FATAL_FAILURE(ConnectAndDestroy(channel, &connected[i]));
  }
  rdma_cm_id* id = Resolve(channel, &last);
  hearer.join();
  acceptor.join();
  Destroy(id, &last);
  for (const Heard& heard : connected) {
    for (const rdma_cm_event_type type : {RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ROUTE_RESOLVED,
                                          RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_DISCONNECTED}) {
      EXPECT_EQ(heard.times[type], 1) << rdma_event_str(type);
    }
    EXPECT_EQ(heard.times[RDMA_CM_EVENT_ADDR_ERROR], 0);
  }
  for (const Heard& heard : hasty) {
    EXPECT_LE(heard.times[RDMA_CM_EVENT_ADDR_RESOLVED] + heard.times[RDMA_CM_EVENT_ADDR_ERROR], 1);
  }
  EXPECT_EQ(rdma_destroy_id(listener), 0);
  rdma_destroy_event_channel(listening);
  rdma_destroy_event_channel(channel);
}

}  // namespace
}  // namespace pollux::compat
