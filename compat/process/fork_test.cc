// Children of a process that has the port: what they do with what they have inherited is no loss of
// their parent's, and what needs the port is refused.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rte_mempool.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "compat/rdmacm/cm_peer_for_test.h"
#include "compat/runtime/settings.h"
#include "compat/verbs/reliable_qp_for_test.h"
#include "stack/base/eventually_for_test.h"

namespace pollux::compat {
namespace {

constexpr uint32_t kDepth = 16;
constexpr int kChildren = 200;
constexpr unsigned kTimeoutS = 60;  // of a child that waits for what it does not get

void SetBlocking(int fd, bool blocking) {
  const int flags = fcntl(fd, F_GETFL);
  ASSERT_EQ(fcntl(fd, F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK), 0);
}

// How the child ended that did this: 0 is as it should be.
int StatusOfChild(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(kTimeoutS);
    _exit(work());
  }
  if (child < 0) {
    ADD_FAILURE() << "fork: " << std::strerror(errno);
    return -1;
  }
  int status = -1;
  if (waitpid(child, &status, 0) != child) {
    ADD_FAILURE() << "waitpid: " << std::strerror(errno);
    return -1;
  }
  if (WIFSIGNALED(status)) ADD_FAILURE() << "the child ended by " << strsignal(WTERMSIG(status));
  return status;
}

// The first of `calls` that does not give -1 and ENODEV, from 1; 0: they all do.
int FirstNotRefused(const std::vector<std::function<int()>>& calls) {
  for (size_t i = 0; i < calls.size(); ++i) {
    errno = 0;
    if (calls[i]() != -1 || errno != ENODEV) return static_cast<int>(i + 1);
  }
  return 0;
}

int OrErrno(const void* made) { return made == nullptr ? -1 : 0; }
int OrErrno(int error) {
  errno = error;
  return error == 0 ? 0 : -1;
}

// Fork handlers of a library that is initialised before the device is opened.
class LibraryOfProgram {
 public:
  // Registers the handlers only once: with --gtest_repeat, GoogleTest sets up the suite repeatedly.
  static void Initialise() {
    static const int error = pthread_atfork(BeforeFork, AfterFork, AfterFork);
    ASSERT_EQ(error, 0);
  }

  static inline std::mutex mutex;
  static inline std::atomic<ibv_cq*> cq{nullptr};  // polled by the handlers; null: none

 private:
  static void Poll() {
    if (cq == nullptr) return;
    ibv_wc wc{};
    EXPECT_EQ(ibv_poll_cq(cq, 1, &wc), 0);
  }
  static void BeforeFork() {
    Poll();
    mutex.lock();
  }
  static void AfterFork() {
    mutex.unlock();
    Poll();
  }
};

class ForkTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv(kSettingsVariable, kPortOfOne, 1);
    LibraryOfProgram::Initialise();
  }
  void SetUp() override {
    ibv_device** list = ibv_get_device_list(nullptr);
    ASSERT_NE(list[0], nullptr);
    context_ = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    ASSERT_NE(context_, nullptr);
    pd_ = ibv_alloc_pd(context_);
    channel_ = ibv_create_comp_channel(context_);
    cq_ = ibv_create_cq(context_, kDepth, nullptr, channel_, 0);
    mr_ = ibv_reg_mr(pd_, bytes_.data(), bytes_.size(), kAccess);
    events_ = rdma_create_event_channel();
    ASSERT_TRUE(cq_ != nullptr && mr_ != nullptr && events_ != nullptr);
    one_ = MakeQp();
    other_ = MakeQp();
    Connect(one_, other_->qp_num);
    Connect(other_, one_->qp_num);
  }
  void TearDown() override { EXPECT_EQ(DestroyAll(), 0); }

  // Which one was not to be destroyed; 0: none.
  int DestroyAll() {
    if (ibv_destroy_qp(one_) != 0 || ibv_destroy_qp(other_) != 0) return 1;
    if (ibv_dereg_mr(mr_) != 0) return 2;
    if (ibv_destroy_cq(cq_) != 0) return 3;
    if (ibv_destroy_comp_channel(channel_) != 0) return 4;
    if (ibv_dealloc_pd(pd_) != 0) return 5;
    rdma_destroy_event_channel(events_);
    return ibv_close_device(context_) == 0 ? 0 : 6;
  }
  ibv_qp* MakeQp() {
    ibv_qp_init_attr init = ReliableQp(kDepth);
    init.send_cq = init.recv_cq = cq_;
    return ibv_create_qp(pd_, &init);
  }
  ibv_ah_attr To(uint8_t host) {
    ibv_ah_attr attr{};
    attr.is_global = 1;
    attr.port_num = 1;
    attr.grh.hop_limit = 64;
    EXPECT_EQ(ibv_query_gid(context_, 1, 0, &attr.grh.dgid), 0);
    attr.grh.dgid.raw[15] = host;
    return attr;
  }
  static int Move(ibv_qp* qp, ibv_qp_state state) {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
  }
  void Connect(ibv_qp* qp, uint32_t peer) {
    ReliablePeer at_same_port = PeerAtSamePort(context_, peer);
    at_same_port.access = kAccess;
    ASSERT_EQ(MoveToRts(qp, at_same_port), 0);
  }
  // A message from one to the other, without waiting for its two completions.
  void Post() {
    ibv_recv_wr receive{};
    ibv_recv_wr* bad_receive = nullptr;
    ASSERT_EQ(ibv_post_recv(other_, &receive, &bad_receive), 0);
    ibv_send_wr send{};
    send.opcode = IBV_WR_SEND;
    send.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad_send = nullptr;
    ASSERT_EQ(ibv_post_send(one_, &send, &bad_send), 0);
  }
  void AwaitCompletions() {
    for (int completions = 0; completions < 2;) {
      ibv_wc wc{};
      const int polled = ibv_poll_cq(cq_, 1, &wc);
      ASSERT_GE(polled, 0);
      ASSERT_EQ(wc.status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);  // of none: 0
      completions += polled;
    }
  }
  static size_t FreeFrames() {
    size_t free = 0;
    rte_mempool_walk([](rte_mempool* pool,
                        void* sum) { *static_cast<size_t*>(sum) += rte_mempool_avail_count(pool); },
                     &free);
    return free;
  }
  int GetCqEvent() {
    ibv_cq* announced = nullptr;
    void* user = nullptr;
    if (ibv_get_cq_event(channel_, &announced, &user) != 0) return -1;
    ibv_ack_cq_events(announced, 1);
    return 0;
  }
  int GetAsyncEvent() {
    ibv_async_event event{};
    if (ibv_get_async_event(context_, &event) != 0) return -1;
    ibv_ack_async_event(&event);
    return 0;
  }
  int GetCmEvent() {
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(events_, &event) != 0) return -1;
    return rdma_ack_cm_event(event);
  }

  static constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  std::array<char, 64> bytes_{};
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_qp *one_ = nullptr, *other_ = nullptr;
  rdma_event_channel* events_ = nullptr;
};

TEST_F(ForkTest, CompletionEventsStayInTheParent) {
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  Post();
  AwaitCompletions();
  EXPECT_EQ(StatusOfChild([&] { return DestroyAll(); }), 0);
  SetBlocking(channel_->fd, false);
  EXPECT_EQ(GetCqEvent(), 0);
}

TEST_F(ForkTest, CompletionEventsAfterTheForkDoNotReachTheChild) {
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(kTimeoutS);
    char byte = 0;
    if (read(go[0], &byte, 1) != 1) _exit(10);
    if (GetCqEvent() != -1 || errno != ENODEV) _exit(11);
    _exit(DestroyAll());
  }
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  Post();
  AwaitCompletions();
  ASSERT_EQ(write(go[1], ".", 1), 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  SetBlocking(channel_->fd, false);
  EXPECT_EQ(GetCqEvent(), 0);
  for (const int end : go) close(end);
}

TEST_F(ForkTest, CmEventsStayInTheParent) {
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(events_, &id, nullptr, RDMA_PS_TCP), 0);
  Ipv4Address address(kAddressOfOne, 7471);
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, address.get(), kResolveTimeoutMs), 0);
  EXPECT_EQ(StatusOfChild([&] {
              if (rdma_destroy_id(id) != 0) return 10;
              rdma_destroy_event_channel(events_);
              return 0;
            }),
            0);
  EXPECT_EQ(StatusOfChild([&] {
              rdma_destroy_event_channel(events_);
              return rdma_destroy_id(id);
            }),
            0);
  SetBlocking(events_->fd, false);
  EXPECT_EQ(GetCmEvent(), 0);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(ForkTest, AsyncEventsStayInTheParent) {
  constexpr uint32_t kMany = 100;
  ibv_cq* small = ibv_create_cq(context_, 1, nullptr, nullptr, 0);
  ibv_qp_init_attr init = ReliableQp(kMany);
  init.send_cq = init.recv_cq = small;
  ibv_qp* qp = ibv_create_qp(pd_, &init);
  ASSERT_TRUE(small != nullptr && qp != nullptr);
  Connect(qp, one_->qp_num);
  ibv_recv_wr receive{};
  ibv_recv_wr* bad = nullptr;
  for (uint32_t i = 0; i < kMany; ++i) ASSERT_EQ(ibv_post_recv(qp, &receive, &bad), 0);
  ASSERT_EQ(Move(qp, IBV_QPS_ERR), 0);
  EXPECT_EQ(StatusOfChild([&] {
              if (ibv_destroy_qp(qp) != 0) return 10;
              return ibv_destroy_cq(small);
            }),
            0);
  SetBlocking(context_->async_fd, false);
  EXPECT_EQ(GetAsyncEvent(), 0);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(small), 0);
}

TEST_F(ForkTest, ChildrenTakeNoFramesOfTheParent) {
  constexpr uint8_t kNobody = 99;
  Post();
  AwaitCompletions();
  rdma_cm_id* listener = nullptr;
  ASSERT_EQ(rdma_create_id(events_, &listener, nullptr, RDMA_PS_TCP), 0);
  ASSERT_EQ(Bind(listener, kAddressOfOne, 7471), 0);
  ASSERT_EQ(rdma_listen(listener, 1), 0);
  ibv_ah_attr attr = To(kNobody);
  const size_t before = FreeFrames();
  for (int i = 0; i < kChildren; ++i) {
    ASSERT_EQ(StatusOfChild([&] {
                if (ibv_create_ah(pd_, &attr) != nullptr || errno != ENODEV) return 10;
                if (Move(one_, IBV_QPS_ERR) != ENODEV) return 11;
                if (rdma_destroy_id(listener) != 0) return 12;
                return DestroyAll();
              }),
              0);
  }
  // Some are under way until their acknowledgements are.
  EXPECT_TRUE(Eventually([&] { return FreeFrames() >= before; }))
      << FreeFrames() << " of " << before;
  EXPECT_EQ(rdma_destroy_id(listener), 0);
}

TEST_F(ForkTest, CallsThatNeedThePortFailInAChild) {
  rdma_cm_id *waits = nullptr, *listener = nullptr;
  ASSERT_EQ(rdma_create_id(nullptr, &waits, nullptr, RDMA_PS_TCP), 0);
  ASSERT_EQ(rdma_create_id(nullptr, &listener, nullptr, RDMA_PS_TCP), 0);
  ASSERT_EQ(Bind(listener, kAddressOfOne, 7471), 0);
  ASSERT_EQ(rdma_listen(listener, 1), 0);
  rdma_cm_id* peer = MakePeer(kAddressOfOne, 7471);
  ibv_srq_init_attr srq_init{};
  srq_init.attr = {.max_wr = kDepth, .max_sge = 1, .srq_limit = 0};
  ibv_srq* srq = ibv_create_srq(pd_, &srq_init);
  ibv_ah_attr to_itself = To(1);
  const auto uses = [&] {
    Ipv4Address address(kAddressOfOne, 7471);
    rdma_conn_param param{};
    rdma_cm_id* made = nullptr;
    ibv_qp_init_attr init = ReliableQp(kDepth);
    ibv_recv_wr receive{};
    ibv_recv_wr* bad = nullptr;
    return FirstNotRefused({
        [&] { return rdma_create_id(nullptr, &made, nullptr, RDMA_PS_TCP); },
        [&] { return OrErrno(rdma_create_event_channel()); },
        [&] { return GetCmEvent(); },
        [&] { return rdma_bind_addr(waits, address.get()); },
        [&] { return rdma_resolve_addr(waits, nullptr, address.get(), kResolveTimeoutMs); },
        [&] { return rdma_resolve_route(peer, kResolveTimeoutMs); },
        [&] { return rdma_connect(peer, &param); },
        [&] { return rdma_accept(peer, &param); },
        [&] { return rdma_reject(peer, nullptr, 0); },
        [&] { return rdma_disconnect(peer); },
        [&] { return rdma_establish(waits); },
        [&] { return rdma_notify(peer, IBV_EVENT_COMM_EST); },
        [&] { return rdma_listen(waits, 1); },
        [&] { return rdma_get_request(listener, &made); },
        [&] { return rdma_migrate_id(waits, events_); },
        [&] { return rdma_join_multicast(waits, address.get(), nullptr); },
        [&] { return rdma_leave_multicast(waits, address.get()); },
        [&] { return rdma_create_qp(peer, nullptr, &init); },
        [&] { return GetCqEvent(); },
        [&] { return GetAsyncEvent(); },
        [&] { return OrErrno(ibv_alloc_pd(context_)); },
        [&] { return OrErrno(ibv_import_device(context_->cmd_fd)); },
        [&] { return OrErrno(ibv_import_pd(context_, pd_->handle)); },
        [&] { return OrErrno(ibv_import_mr(pd_, mr_->handle)); },
        [&] { return OrErrno(ibv_create_comp_channel(context_)); },
        [&] { return OrErrno(ibv_create_cq(context_, 1, nullptr, nullptr, 0)); },
        [&] { return OrErrno(MakeQp()); },
        [&] { return OrErrno(ibv_create_srq(pd_, &srq_init)); },
        [&] { return OrErrno(ibv_reg_mr(pd_, bytes_.data(), bytes_.size(), 0)); },
        [&] { return OrErrno(ibv_alloc_mw(pd_, IBV_MW_TYPE_1)); },
        [&] { return OrErrno(ibv_create_ah(pd_, &to_itself)); },
        [&] { return OrErrno(Move(one_, IBV_QPS_RESET)); },
        [&] { return OrErrno(ibv_post_recv(one_, &receive, &bad)); },
        [&] { return OrErrno(ibv_post_srq_recv(srq, &receive, &bad)); },
        [&] { return OrErrno(ibv_modify_srq(srq, &srq_init.attr, IBV_SRQ_LIMIT)); },
        [&] { return OrErrno(ibv_resize_cq(cq_, kDepth)); },
        [&] { return OrErrno(ibv_req_notify_cq(cq_, 0)); },
        [&] { return OrErrno(ibv_attach_mcast(one_, &to_itself.grh.dgid, 0)); },
        [&] { return OrErrno(ibv_detach_mcast(one_, &to_itself.grh.dgid, 0)); },
    });
  };
  EXPECT_EQ(StatusOfChild(uses), 0) << "256 times which of them was not";
  EXPECT_EQ(StatusOfChild([&] {
              rdma_destroy_ep(peer);
              if (rdma_destroy_id(waits) != 0 || rdma_destroy_id(listener) != 0) return 10;
              return ibv_destroy_srq(srq);
            }),
            0);
  rdma_destroy_ep(peer);
  EXPECT_EQ(rdma_destroy_id(waits), 0);
  EXPECT_EQ(rdma_destroy_id(listener), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(ForkTest, ForkHandlersMayLockWhatAnotherThreadHoldsInACall) {
  std::atomic<bool> enough{false};
  std::thread poller([&] {
    while (!enough) {
      const std::lock_guard lock(LibraryOfProgram::mutex);
      ibv_wc wc{};
      EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 0);
    }
  });
  alarm(kTimeoutS);
  for (int i = 0; i < kChildren && !HasFailure(); ++i) {
    EXPECT_EQ(StatusOfChild([] { return 0; }), 0);
  }
  alarm(0);
  enough = true;
  poller.join();
}

TEST_F(ForkTest, ForkHandlersMayCallVerbs) {
  LibraryOfProgram::cq = cq_;
  alarm(kTimeoutS);
  EXPECT_EQ(StatusOfChild([&] { return HasFailure() ? 10 : DestroyAll(); }), 0);
  alarm(0);
  LibraryOfProgram::cq = nullptr;
}

// Whatever the parent's threads are in the middle of.
TEST_F(ForkTest, ChildrenForkedUnderTrafficCanDestroyAllObjects) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "a fork leaves the child the locks of libasan's allocator that others hold";
#endif
  SetBlocking(events_->fd, false);
  std::atomic<bool> enough{false};
  std::thread sender([&] {
    while (!enough) {
      EXPECT_EQ(ibv_req_notify_cq(cq_, 0), 0);
      Post();
      EXPECT_EQ(GetCqEvent(), 0);
      AwaitCompletions();
    }
  });
  std::thread connector([&] {
    Ipv4Address address(kAddressOfOne, 7471);
    while (!enough) {
      rdma_cm_id* id = nullptr;
      ASSERT_EQ(rdma_create_id(events_, &id, nullptr, RDMA_PS_TCP), 0);
      EXPECT_EQ(rdma_resolve_addr(id, nullptr, address.get(), kResolveTimeoutMs), 0);
      while (GetCmEvent() != 0 && !enough) EXPECT_EQ(errno, EAGAIN);
      EXPECT_EQ(rdma_destroy_id(id), 0);
    }
  });
  std::thread opener([&] {
    while (!enough) {
      rdma_event_channel* channel = rdma_create_event_channel();
      ASSERT_NE(channel, nullptr);
      rdma_destroy_event_channel(channel);
    }
  });
  for (int i = 0; i < kChildren && !HasFailure(); ++i) {
    EXPECT_EQ(StatusOfChild([&] {
                rdma_cm_id* id = nullptr;
                if (rdma_create_id(events_, &id, nullptr, RDMA_PS_TCP) == 0) return 10;
                if (rdma_create_event_channel() != nullptr) return 11;
                return DestroyAll();
              }),
              0);
  }
  enough = true;
  sender.join();
  connector.join();
  opener.join();
}

}  // namespace
}  // namespace pollux::compat
