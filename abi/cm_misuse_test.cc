// What a program does that the manuals of librdmacm have an error for: the documented error, and
// everything else still works.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "abi/cm_peer_for_test.h"
#include "abi/settings.h"

namespace pollux::abi {
namespace {

// What a program that calls exit() has left, and its own static destructors come to.
struct Leftover {
  ~Leftover() {
    if (id == nullptr) return;
    if (rdma_disconnect(id) != -1 || errno != EINVAL) _exit(2);
    rdma_destroy_qp(id);
    if (id->qp != nullptr || rdma_destroy_id(id) != 0) _exit(3);
  }
  rdma_cm_id* id = nullptr;
} leftover;

class CmMisuseTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { setenv(kSettingsVariable, kPortOfOne, 1); }
  void SetUp() override {
    channel_ = rdma_create_event_channel();
    ASSERT_NE(channel_, nullptr);
    id_ = Make();
  }
  void TearDown() override {
    EXPECT_EQ(rdma_destroy_id(id_), 0);
    rdma_destroy_event_channel(channel_);
  }
  rdma_cm_id* Make() {
    rdma_cm_id* id = nullptr;
    EXPECT_EQ(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP), 0);
    return id;
  }
  // False when not as many wait in the channel in time.
  bool AwaitEvents(int count) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (std::chrono::steady_clock::now() < deadline) {
      std::ifstream info("/proc/self/fdinfo/" + std::to_string(channel_->fd));
      for (std::string word; info >> word;) {
        if (word != "eventfd-count:") continue;
        info >> word;
        if (std::stoi(word, nullptr, 16) >= count) return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  rdma_event_channel* channel_ = nullptr;
  rdma_cm_id* id_ = nullptr;
};

#define EXPECT_ERRNO(call, number) \
  errno = 0;                       \
  EXPECT_EQ(call, -1);             \
  EXPECT_EQ(errno, number)

TEST_F(CmMisuseTest, CallsThatTheStateDoesNotAllow) {
  rdma_conn_param param{};
  EXPECT_ERRNO(rdma_resolve_route(id_, 100), EINVAL);
  EXPECT_ERRNO(rdma_connect(id_, &param), EINVAL);
  EXPECT_ERRNO(rdma_accept(id_, &param), EINVAL);
  EXPECT_ERRNO(rdma_reject(id_, nullptr, 0), EINVAL);
  EXPECT_ERRNO(rdma_disconnect(id_), EINVAL);
  rdma_cm_id* request = nullptr;
  EXPECT_ERRNO(rdma_get_request(id_, &request), EINVAL);
  ibv_qp_init_attr init{};
  EXPECT_ERRNO(rdma_create_qp(id_, nullptr, &init), EINVAL);
  rdma_destroy_qp(id_);  // of none
}

TEST_F(CmMisuseTest, Addresses) {
  EXPECT_ERRNO(Bind(id_, "198.51.100.1", 0), EADDRNOTAVAIL);
  ASSERT_EQ(Bind(id_, kAddressOfOne, 7000), 0);
  EXPECT_ERRNO(Bind(id_, kAddressOfOne, 7001), EINVAL);
  ASSERT_EQ(rdma_listen(id_, 1), 0);
  EXPECT_ERRNO(rdma_listen(id_, 1), EINVAL);
  rdma_cm_id* second = Make();
  EXPECT_ERRNO(Bind(second, kAddressOfOne, 7000), EADDRINUSE);
  sockaddr_storage other{};
  other.ss_family = AF_UNIX;
  EXPECT_ERRNO(rdma_bind_addr(second, reinterpret_cast<sockaddr*>(&other)), EAFNOSUPPORT);
  Ipv4Address none("0.0.0.0", 7000);
  EXPECT_ERRNO(rdma_resolve_addr(second, nullptr, none.get(), 100), EINVAL);
  EXPECT_EQ(rdma_destroy_id(second), 0);
}

TEST_F(CmMisuseTest, NothingAtAll) {
  EXPECT_ERRNO(rdma_destroy_id(nullptr), EINVAL);
  EXPECT_ERRNO(rdma_get_cm_event(nullptr, nullptr), EINVAL);
  EXPECT_ERRNO(rdma_ack_cm_event(nullptr), EINVAL);
  EXPECT_ERRNO(rdma_bind_addr(id_, nullptr), EINVAL);
  EXPECT_ERRNO(rdma_resolve_addr(id_, nullptr, nullptr, 100), EINVAL);
  rdma_destroy_event_channel(nullptr);
  uint8_t byte = 0;
  EXPECT_ERRNO(rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &byte, 2), EINVAL);
  EXPECT_ERRNO(rdma_set_option(id_, RDMA_OPTION_ID, 99, &byte, 1), ENOSYS);
  EXPECT_ERRNO(rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, nullptr, 1), EFAULT);
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, O_NONBLOCK), 0);
  rdma_cm_event* event = nullptr;
  EXPECT_ERRNO(rdma_get_cm_event(channel_, &event), EAGAIN);
}

TEST_F(CmMisuseTest, AChannelIsDestroyedBeforeItsIdentifiers) {
  rdma_event_channel* channel = rdma_create_event_channel();
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), 0);
  ASSERT_EQ(Bind(id, kAddressOfOne, 0), 0);
  rdma_destroy_event_channel(channel);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

// A peer asks and gives up before the listener's program has looked at either event; then the
// listener goes, and with it what it was asked.
TEST_F(CmMisuseTest, NothingIsHeardOfRequestsThatWentWithTheirListener) {
  rdma_cm_id* listener = Make();
  ASSERT_EQ(Bind(listener, kAddressOfOne, 7471), 0);
  ASSERT_EQ(rdma_listen(listener, 4), 0);
  rdma_event_channel* others = rdma_create_event_channel();
  rdma_cm_id* peer = Ask(7471, others);
  ASSERT_TRUE(AwaitEvents(1));
  rdma_destroy_qp(peer);
  ASSERT_EQ(rdma_destroy_id(peer), 0);
  ASSERT_TRUE(AwaitEvents(2));
  ASSERT_EQ(rdma_destroy_id(listener), 0);
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, O_NONBLOCK), 0);
  rdma_cm_event* event = nullptr;
  EXPECT_ERRNO(rdma_get_cm_event(channel_, &event), EAGAIN);
  rdma_destroy_event_channel(others);
}

// A peer asks and gives up, as above; the listener is moved to another channel, where the program
// hears of both.
TEST_F(CmMisuseTest, RequestsThatNobodyHasSeenGoWithTheirListenerToItsNewChannel) {
  rdma_cm_id* listener = Make();
  ASSERT_EQ(Bind(listener, kAddressOfOne, 7472), 0);
  ASSERT_EQ(rdma_listen(listener, 4), 0);
  rdma_event_channel* others = rdma_create_event_channel();
  rdma_cm_id* peer = Ask(7472, others);
  ASSERT_TRUE(AwaitEvents(1));
  rdma_destroy_qp(peer);
  ASSERT_EQ(rdma_destroy_id(peer), 0);
  ASSERT_TRUE(AwaitEvents(2));
  rdma_event_channel* fresh = rdma_create_event_channel();
  ASSERT_EQ(rdma_migrate_id(listener, fresh), 0);
  rdma_cm_id* request = AwaitEvent(fresh, RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(request->channel, fresh);
  rdma_cm_event* event = nullptr;
  ASSERT_EQ(rdma_get_cm_event(fresh, &event), 0);
  EXPECT_EQ(event->id, request);
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, O_NONBLOCK), 0);
  EXPECT_ERRNO(rdma_get_cm_event(channel_, &event), EAGAIN);
  EXPECT_EQ(rdma_destroy_id(request), 0);
  EXPECT_EQ(rdma_destroy_id(listener), 0);
  rdma_destroy_event_channel(fresh);
  rdma_destroy_event_channel(others);
}

// A program that looks for events and completions in turn hears of the end when it has what came
// before, or has looked often enough; of which it may be reminded by changes of the descriptor
// alone.
TEST_F(CmMisuseTest, TheEndComesAfterWhatWasReceived) {
  constexpr int kMostLooks = 1000;
  constexpr int kPatienceMs = 20'000;
  enum class Program : uint8_t { kPolls, kLooks, kWaitsForChanges };
  for (const auto program : {Program::kPolls, Program::kLooks, Program::kWaitsForChanges}) {
    rdma_cm_id* listener = Make();
    ASSERT_EQ(Bind(listener, kAddressOfOne, 7473), 0);
    ASSERT_EQ(rdma_listen(listener, 4), 0);
    rdma_event_channel* others = rdma_create_event_channel();
    rdma_cm_id* peer = Ask(7473, others);
    rdma_cm_id* id = AwaitEvent(channel_, RDMA_CM_EVENT_CONNECT_REQUEST);
    ASSERT_EQ(MakeQp(id), 0);
    ibv_recv_wr receive{};
    receive.wr_id = 5;
    ibv_recv_wr* bad_receive = nullptr;
    ASSERT_EQ(ibv_post_recv(id->qp, &receive, &bad_receive), 0);
    ASSERT_EQ(rdma_accept(id, nullptr), 0);
    for (rdma_event_channel* channel : {channel_, others}) {
      AwaitEvent(channel, RDMA_CM_EVENT_ESTABLISHED);
    }
    ibv_send_wr send{};
    send.opcode = IBV_WR_SEND;
    send.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad_send = nullptr;
    ASSERT_EQ(ibv_post_send(peer->qp, &send, &bad_send), 0);
    ibv_wc wc{};
    while (ibv_poll_cq(peer->send_cq, 1, &wc) == 0) {
    }
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    ASSERT_EQ(rdma_disconnect(peer), 0);
    ASSERT_TRUE(AwaitEvents(1));
    ASSERT_EQ(fcntl(channel_->fd, F_SETFL, O_NONBLOCK), 0);
    const int changes = epoll_create1(EPOLL_CLOEXEC);
    epoll_event change{.events = EPOLLIN | EPOLLET, .data = {}};
    ASSERT_EQ(epoll_ctl(changes, EPOLL_CTL_ADD, channel_->fd, &change), 0);
    ASSERT_EQ(epoll_wait(changes, &change, 1, kPatienceMs), 1);
    rdma_cm_event* event = nullptr;
    EXPECT_ERRNO(rdma_get_cm_event(channel_, &event), EAGAIN);
    if (program == Program::kPolls) {
      ASSERT_EQ(ibv_poll_cq(id->recv_cq, 1, &wc), 1);
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
      EXPECT_EQ(wc.wr_id, 5u);
    }
    for (int looks = 0; rdma_get_cm_event(channel_, &event) != 0; ++looks) {
      ASSERT_LT(looks, kMostLooks);
      if (program != Program::kWaitsForChanges) continue;
      ASSERT_EQ(epoll_wait(changes, &change, 1, kPatienceMs), 1);
    }
    close(changes);
    EXPECT_EQ(event->event, RDMA_CM_EVENT_DISCONNECTED);
    EXPECT_EQ(rdma_ack_cm_event(event), 0);
    ASSERT_EQ(fcntl(channel_->fd, F_SETFL, 0), 0);
    for (rdma_cm_id* end : {id, peer}) {
      rdma_destroy_qp(end);
      EXPECT_EQ(rdma_destroy_id(end), 0);
    }
    EXPECT_EQ(rdma_destroy_id(listener), 0);
    rdma_destroy_event_channel(others);
  }
}

// Completions that wait in the same queue are of other connections.
TEST_F(CmMisuseTest, TheEndDoesNotWaitForWhatOthersReceived) {
  rdma_cm_id* listener = Make();
  ASSERT_EQ(Bind(listener, kAddressOfOne, 7474), 0);
  ASSERT_EQ(rdma_listen(listener, 4), 0);
  rdma_event_channel* others = rdma_create_event_channel();
  ibv_cq* shared = ibv_create_cq(listener->verbs, 64, nullptr, nullptr, 0);
  rdma_cm_id* ids[2];
  rdma_cm_id* peers[2];
  for (int i = 0; i < 2; ++i) {
    peers[i] = Ask(7474, others);
    ids[i] = AwaitEvent(channel_, RDMA_CM_EVENT_CONNECT_REQUEST);
    ibv_qp_init_attr init = ReliableQp(4);
    init.send_cq = init.recv_cq = shared;
    ASSERT_EQ(rdma_create_qp(ids[i], nullptr, &init), 0);
    ASSERT_EQ(rdma_accept(ids[i], nullptr), 0);
    for (rdma_event_channel* channel : {channel_, others}) {
      AwaitEvent(channel, RDMA_CM_EVENT_ESTABLISHED);
    }
  }
  ibv_send_wr send{};
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_SIGNALED;
  ibv_recv_wr receive{};
  ibv_recv_wr* bad_receive = nullptr;
  ASSERT_EQ(ibv_post_recv(ids[1]->qp, &receive, &bad_receive), 0);
  ibv_send_wr* bad_send = nullptr;
  ASSERT_EQ(ibv_post_send(peers[1]->qp, &send, &bad_send), 0);
  ibv_wc wc{};
  while (ibv_poll_cq(peers[1]->send_cq, 1, &wc) == 0) {
  }
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  ASSERT_EQ(rdma_disconnect(peers[0]), 0);
  ASSERT_TRUE(AwaitEvents(1));
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, O_NONBLOCK), 0);
  EXPECT_EQ(AwaitEvent(channel_, RDMA_CM_EVENT_DISCONNECTED), ids[0]);
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, 0), 0);
  for (rdma_cm_id* end : {ids[0], ids[1], peers[0], peers[1]}) {
    rdma_destroy_qp(end);
    EXPECT_EQ(rdma_destroy_id(end), 0);
  }
  EXPECT_EQ(ibv_destroy_cq(shared), 0);
  EXPECT_EQ(rdma_destroy_id(listener), 0);
  rdma_destroy_event_channel(others);
}

TEST_F(CmMisuseTest, AQueuePairReceivesFromTheSharedQueueOfItsIdentifier) {
  ASSERT_EQ(Bind(id_, kAddressOfOne, 0), 0);
  ibv_srq_init_attr init{};
  init.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
  ASSERT_EQ(rdma_create_srq(id_, nullptr, &init), 0);
  ASSERT_EQ(MakeQp(id_), 0);
  EXPECT_EQ(id_->qp->srq, id_->srq);
  rdma_destroy_qp(id_);
  rdma_destroy_srq(id_);
}

TEST_F(CmMisuseTest, EndpointsOfKindsThatAreNotServed) {
  Ipv4Address address(kAddressOfOne, 7475);
  rdma_addrinfo info{};
  info.ai_port_space = RDMA_PS_TCP;
  info.ai_src_addr = address.get();
  info.ai_src_len = sizeof(sockaddr_in);
  for (const ibv_qp_type type : {IBV_QPT_XRC_RECV, IBV_QPT_XRC_SEND, IBV_QPT_UC}) {
    for (const int flags : {0, RAI_PASSIVE}) {
      info.ai_flags = flags;
      info.ai_qp_type = type;
      rdma_cm_id* endpoint = nullptr;
      EXPECT_ERRNO(rdma_create_ep(&endpoint, &info, nullptr, nullptr), EOPNOTSUPP);
    }
  }
}

// As rping ends: its queue pair, which rdma_create_qp() made, goes by ibv_destroy_qp(), and then
// the identifier.
TEST_F(CmMisuseTest, AnIdentifierOutlivesItsQueuePair) {
  ASSERT_EQ(Bind(id_, kAddressOfOne, 0), 0);
  ASSERT_EQ(MakeQp(id_), 0);
  EXPECT_EQ(ibv_destroy_qp(id_->qp), 0);
  EXPECT_EQ(id_->qp, nullptr);
  rdma_destroy_qp(id_);  // the completion queues
  EXPECT_EQ(id_->send_cq, nullptr);
  ASSERT_EQ(MakeQp(id_), 0);
  EXPECT_EQ(ibv_destroy_qp(id_->qp), 0);
  rdma_destroy_qp(id_);
}

TEST_F(CmMisuseTest, StaticDestructorsFindWhatTheProgramLeft) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto leave = [] {
    if (rdma_create_id(nullptr, &leftover.id, nullptr, RDMA_PS_TCP) != 0) _exit(4);
    if (Bind(leftover.id, kAddressOfOne, 0) != 0 || MakeQp(leftover.id) != 0) _exit(5);
    std::exit(0);
  };
  EXPECT_EXIT(leave(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace pollux::abi
