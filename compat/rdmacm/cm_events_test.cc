// What events of rdma_cm say, which there are, and in which channel: one port as both ends.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "compat/rdmacm/cm_id.h"
#include "compat/rdmacm/cm_peer_for_test.h"
#include "compat/runtime/runtime.h"
#include "compat/runtime/settings.h"

namespace pollux::compat {
namespace {

constexpr uint16_t kPort = 7471;
constexpr int kBacklog = 8;

class CmEventsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { setenv(kSettingsVariable, kPortOfOne, 1); }
  void SetUp() override {
    channel_ = rdma_create_event_channel();
    others_ = rdma_create_event_channel();
    ASSERT_TRUE(channel_ != nullptr && others_ != nullptr);
    ASSERT_EQ(rdma_create_id(channel_, &listener_, nullptr, RDMA_PS_TCP), 0);
    ASSERT_EQ(Bind(listener_, kAddressOfOne, kPort), 0) << std::strerror(errno);
    ASSERT_EQ(rdma_listen(listener_, kBacklog), 0);
  }
  void TearDown() override {
    EXPECT_EQ(rdma_destroy_id(listener_), 0);
    rdma_destroy_event_channel(channel_);
    rdma_destroy_event_channel(others_);
  }
  // The next event, acknowledged: of its private data only the length is left.
  static rdma_cm_event Take(rdma_event_channel* channel) {
    rdma_cm_event* event = nullptr;
    EXPECT_EQ(rdma_get_cm_event(channel, &event), 0) << std::strerror(errno);
    const rdma_cm_event taken = *event;
    EXPECT_EQ(rdma_ack_cm_event(event), 0);
    return taken;
  }
  // That nothing of a connection is said.
  static void ExpectNothingSaid(const rdma_conn_param& param) {
    EXPECT_EQ(param.responder_resources, 0);
    EXPECT_EQ(param.initiator_depth, 0);
    EXPECT_EQ(param.flow_control, 0);
    EXPECT_EQ(param.retry_count, 0);
    EXPECT_EQ(param.rnr_retry_count, 0);
    EXPECT_EQ(param.srq, 0);
    EXPECT_EQ(param.qp_num, 0u);
  }
  static ibv_qp_state StateOf(const rdma_cm_id* id) {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    const ibv_qp_state shown = id->qp->state;
    EXPECT_EQ(ibv_query_qp(id->qp, &attr, IBV_QP_STATE, &init), 0);
    EXPECT_EQ(shown, attr.qp_state);
    return shown;
  }
  static uint8_t RnrTimerOf(const rdma_cm_id* id) {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_query_qp(id->qp, &attr, IBV_QP_MIN_RNR_TIMER, &init), 0);
    return attr.min_rnr_timer;
  }
  static void Destroy(rdma_cm_id* id) {
    rdma_destroy_qp(id);
    EXPECT_EQ(rdma_destroy_id(id), 0);
  }

  rdma_event_channel* channel_ = nullptr;  // of the listener
  rdma_event_channel* others_ = nullptr;
  rdma_cm_id* listener_ = nullptr;
};

TEST_F(CmEventsTest, EventsCarryTheParametersOfTheirMessage) {
  rdma_cm_id* peer = MakePeer(kAddressOfOne, kPort);
  ASSERT_EQ(rdma_migrate_id(peer, others_), 0);
  rdma_conn_param asked{};
  asked.responder_resources = 5;
  asked.initiator_depth = 3;
  asked.flow_control = 1;
  asked.retry_count = 6;
  asked.rnr_retry_count = 4;
  ASSERT_EQ(rdma_connect(peer, &asked), 0);
  rdma_cm_event event = Take(channel_);
  ASSERT_EQ(event.event, RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(event.listen_id, listener_);
  rdma_cm_id* const request = event.id;
  EXPECT_EQ(event.param.conn.responder_resources, 3);
  EXPECT_EQ(event.param.conn.initiator_depth, 5);
  EXPECT_EQ(event.param.conn.flow_control, 1);
  EXPECT_EQ(event.param.conn.retry_count, 6);
  EXPECT_EQ(event.param.conn.rnr_retry_count, 4);
  EXPECT_EQ(event.param.conn.qp_num, peer->qp->qp_num);
  EXPECT_EQ(event.param.conn.private_data_len, 56);

  ASSERT_EQ(MakeQp(request), 0);
  rdma_conn_param answered{};
  answered.responder_resources = 2;
  answered.initiator_depth = 1;
  answered.rnr_retry_count = 2;
  ASSERT_EQ(rdma_accept(request, &answered), 0);
  EXPECT_EQ(StateOf(request), IBV_QPS_RTS) << "programs send before ESTABLISHED";
  event = Take(others_);
  ASSERT_EQ(event.event, RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(event.param.conn.responder_resources, 1);
  EXPECT_EQ(event.param.conn.initiator_depth, 2);
  EXPECT_EQ(event.param.conn.retry_count, 0) << "a REP says nothing of it";
  EXPECT_EQ(event.param.conn.rnr_retry_count, 2);
  EXPECT_EQ(event.param.conn.qp_num, request->qp->qp_num);
  EXPECT_EQ(event.param.conn.private_data_len, 196);
  EXPECT_EQ(StateOf(peer), IBV_QPS_RTS);
  for (const rdma_cm_id* id : {peer, request}) {
    EXPECT_EQ(RnrTimerOf(id), 0) << "655 ms, as Linux's CM has it: the attempts are counted";
  }
  event = Take(channel_);
  ASSERT_EQ(event.event, RDMA_CM_EVENT_ESTABLISHED);
  ExpectNothingSaid(event.param.conn);
  EXPECT_EQ(event.param.conn.private_data, nullptr);
  EXPECT_EQ(event.param.conn.private_data_len, 0);

  ASSERT_EQ(rdma_disconnect(peer), 0);
  EXPECT_EQ(StateOf(peer), IBV_QPS_ERR);
  for (rdma_event_channel* channel : {channel_, others_}) {
    event = Take(channel);
    ASSERT_EQ(event.event, RDMA_CM_EVENT_DISCONNECTED);
    ExpectNothingSaid(event.param.conn);
  }
  Destroy(peer);
  Destroy(request);
}

TEST_F(CmEventsTest, ARejectionCarriesItsReasonAndEndsTheConnectionAttempt) {
  rdma_cm_id* peer = Ask(kPort, others_);
  rdma_cm_id* const request = AwaitEvent(channel_, RDMA_CM_EVENT_CONNECT_REQUEST);
  const char why[] = "why";
  ASSERT_EQ(rdma_reject(request, why, sizeof why), 0);
  rdma_cm_event* event = nullptr;
  ASSERT_EQ(rdma_get_cm_event(others_, &event), 0);
  ASSERT_EQ(event->event, RDMA_CM_EVENT_REJECTED);
  EXPECT_EQ(event->status, 28) << "of its consumer";
  ExpectNothingSaid(event->param.conn);
  EXPECT_EQ(event->param.conn.private_data_len, 148);
  EXPECT_STREQ(static_cast<const char*>(event->param.conn.private_data), why);
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
  // It connects once; what is said of the next time is for nobody, and nothing is left to end.
  uint8_t type_of_service = 0x68;
  EXPECT_EQ(rdma_set_option(peer, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &type_of_service, 1), 0);
  rdma_conn_param param{};
  EXPECT_EQ(rdma_connect(peer, &param), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_disconnect(peer), 0);
  EXPECT_EQ(rdma_disconnect(request), 0);
  Destroy(peer);
  EXPECT_EQ(rdma_destroy_id(request), 0);
}

TEST_F(CmEventsTest, InfiniteRnrRetriesGetAShortRnrTimer) {
  rdma_cm_id* peer = MakePeer(kAddressOfOne, kPort);
  ASSERT_EQ(rdma_migrate_id(peer, others_), 0);
  rdma_conn_param param{};
  param.rnr_retry_count = 7;
  ASSERT_EQ(rdma_connect(peer, &param), 0);
  rdma_cm_id* const request = AwaitEvent(channel_, RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_EQ(MakeQp(request), 0);
  ASSERT_EQ(rdma_accept(request, &param), 0);
  EXPECT_EQ(Take(others_).event, RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(Take(channel_).event, RDMA_CM_EVENT_ESTABLISHED);
  for (const rdma_cm_id* id : {peer, request}) EXPECT_EQ(RnrTimerOf(id), 12) << "0.64 ms";
  Destroy(peer);
  Destroy(request);
}

// The kernel accepts the call at any time, and librdmacm takes the event.
TEST_F(CmEventsTest, ASynchronousDisconnectTakesTheEventOfAConnectionThatEndedLongBefore) {
  rdma_cm_id* const peer = Ask(kPort, others_);
  rdma_cm_id* const request = AwaitEvent(channel_, RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_EQ(MakeQp(request), 0);
  ASSERT_EQ(rdma_accept(request, nullptr), 0);
  AwaitEvent(others_, RDMA_CM_EVENT_ESTABLISHED);
  AwaitEvent(channel_, RDMA_CM_EVENT_ESTABLISHED);
  ASSERT_EQ(rdma_migrate_id(peer, nullptr), 0) << "from here on its calls wait";
  ASSERT_EQ(rdma_disconnect(request), 0);
  AwaitEvent(channel_, RDMA_CM_EVENT_DISCONNECTED);
  // The peer's time-wait began earlier.
  AwaitEvent(channel_, RDMA_CM_EVENT_TIMEWAIT_EXIT);
  for (const rdma_cm_event_type type : {RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_TIMEWAIT_EXIT}) {
    ASSERT_EQ(rdma_disconnect(peer), 0) << std::strerror(errno);
    EXPECT_EQ(peer->event->event, type);
  }
  EXPECT_EQ(rdma_disconnect(peer), -1) << "no event is left to wait for";
  EXPECT_EQ(errno, EINVAL);
  Destroy(peer);
  Destroy(request);
}

// Programs print it when they report the error.
TEST_F(CmEventsTest, TheAddressOfThePeerIsKnownBeforeItIsResolvedAndAfterAnError) {
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(others_, &id, nullptr, RDMA_PS_TCP), 0);
  Ipv4Address nobody("192.0.2.99", kPort);
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, nobody.get(), 1), 0) << std::strerror(errno);
  EXPECT_EQ(std::memcmp(rdma_get_peer_addr(id), nobody.get(), sizeof(sockaddr_in)), 0);
  EXPECT_EQ(AwaitEvent(others_, RDMA_CM_EVENT_ADDR_ERROR), id);
  EXPECT_EQ(rdma_get_dst_port(id), htons(kPort));
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(CmEventsTest, ANegativeTimeoutIsPracticallyNoLimit) {
  constexpr int kNoLimit = -1, kLongEnoughMs = 50;
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(others_, &id, nullptr, RDMA_PS_TCP), 0);
  Ipv4Address nobody("192.0.2.99", kPort);
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, nobody.get(), kNoLimit), 0) << std::strerror(errno);
  pollfd error{others_->fd, POLLIN, 0};
  EXPECT_EQ(poll(&error, 1, kLongEnoughMs), 0) << "it has expired";
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

// Who drains its queue pair waits for what was posted to be flushed.
TEST_F(CmEventsTest, DisconnectFlushesAQueuePairThatNeverConnected) {
  rdma_cm_id* const peer = Ask(kPort, others_);
  rdma_cm_id* const request = AwaitEvent(channel_, RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_EQ(MakeQp(request), 0);
  ibv_recv_wr receive{};
  receive.wr_id = 7;
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(request->qp, &receive, &bad), 0);
  ASSERT_EQ(rdma_disconnect(request), 0);
  EXPECT_EQ(StateOf(request), IBV_QPS_ERR);
  ibv_wc wc{};
  ASSERT_EQ(ibv_poll_cq(request->recv_cq, 1, &wc), 1);
  EXPECT_EQ(wc.wr_id, 7u);
  EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
  Destroy(request);
  Destroy(peer);
}

// What becomes of a request is told of from when it is accepted: who accepts one whose peer has
// given up hears of it then.
TEST_F(CmEventsTest, RequestsThatAreNotAcceptedGetNoFurtherEvents) {
  Destroy(Ask(kPort, others_));
  rdma_cm_id* const given_up = AwaitEvent(channel_, RDMA_CM_EVENT_CONNECT_REQUEST);
  // What this one sends comes after what the first has sent.
  rdma_cm_id* const second = Ask(kPort, others_);
  rdma_cm_id* const request = AwaitEvent(channel_, RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_EQ(MakeQp(given_up), 0);
  EXPECT_EQ(rdma_accept(given_up, nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
  Destroy(given_up);
  Destroy(second);
  EXPECT_EQ(rdma_destroy_id(request), 0);
}

// Who asks and gives up, over and over, adds no more than that to what the program has to read.
TEST_F(CmEventsTest, AbandonedRequestsStayInTheBacklogUntilTaken) {
  rdma_cm_id* behind = nullptr;
  ASSERT_EQ(rdma_create_id(others_, &behind, nullptr, RDMA_PS_TCP), 0);
  ASSERT_EQ(Bind(behind, kAddressOfOne, kPort + 1), 0);
  ASSERT_EQ(rdma_listen(behind, 1), 0);
  for (int i = 0; i < 3 * kBacklog; ++i) Destroy(Ask(kPort, others_));
  // What this one sends comes after what they have sent.
  rdma_cm_id* const last = Ask(kPort + 1, others_);
  rdma_cm_id* const heard = AwaitEvent(others_, RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, O_NONBLOCK), 0);
  int waiting = 0;
  for (rdma_cm_event* event = nullptr; rdma_get_cm_event(channel_, &event) == 0; ++waiting) {
    EXPECT_EQ(event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
    rdma_cm_id* const request = event->id;
    EXPECT_EQ(rdma_ack_cm_event(event), 0);
    EXPECT_EQ(rdma_destroy_id(request), 0);
  }
  EXPECT_EQ(waiting, kBacklog);
  // And there is room again.
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, 0), 0);
  rdma_cm_id* const peer = Ask(kPort, others_);
  EXPECT_EQ(rdma_destroy_id(AwaitEvent(channel_, RDMA_CM_EVENT_CONNECT_REQUEST)), 0);
  AwaitEvent(others_, RDMA_CM_EVENT_REJECTED);
  for (rdma_cm_id* id : {peer, last}) Destroy(id);
  for (rdma_cm_id* id : {heard, behind}) EXPECT_EQ(rdma_destroy_id(id), 0);
}

// A thread waits in the channel that identifiers leave: either it has taken their event, and is
// done with it when the call returns, or the event is in the other channel.
TEST_F(CmEventsTest, EventsMoveWithAnIdentifierMigratedWhileAThreadWaits) {
  constexpr int kRounds = 200;
  std::atomic<rdma_cm_id*> seen = nullptr;
  rdma_cm_id* last = nullptr;
  ASSERT_EQ(rdma_create_id(channel_, &last, nullptr, RDMA_PS_TCP), 0);
  std::thread waits([&] {
    while (seen != last) {
      rdma_cm_event* event = nullptr;
      ASSERT_EQ(rdma_get_cm_event(channel_, &event), 0);
      EXPECT_EQ(event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
      std::this_thread::yield();
      seen = event->id;
      EXPECT_EQ(rdma_ack_cm_event(event), 0);
    }
  });
  Ipv4Address address(kAddressOfOne, kPort);
  for (int i = 0; i < kRounds; ++i) {
    rdma_cm_id* id = nullptr;
    ASSERT_EQ(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP), 0);
    ASSERT_EQ(rdma_resolve_addr(id, nullptr, address.get(), kResolveTimeoutMs), 0);
    ASSERT_EQ(rdma_migrate_id(id, others_), 0);
    EXPECT_EQ(id->channel, others_);
    if (seen != id) {
      EXPECT_EQ(AwaitEvent(others_, RDMA_CM_EVENT_ADDR_RESOLVED), id);
    }
    seen = nullptr;
    EXPECT_EQ(rdma_destroy_id(id), 0);
  }
  ASSERT_EQ(rdma_resolve_addr(last, nullptr, address.get(), kResolveTimeoutMs), 0);
  waits.join();
  EXPECT_EQ(rdma_destroy_id(last), 0);
}

TEST_F(CmEventsTest, ARequestOfASynchronousListenerHasAChannelOfItsOwn) {
  rdma_cm_id* listener = nullptr;
  ASSERT_EQ(rdma_create_id(nullptr, &listener, nullptr, RDMA_PS_TCP), 0);
  ASSERT_EQ(Bind(listener, kAddressOfOne, kPort + 1), 0);
  ASSERT_EQ(rdma_listen(listener, 2), 0);
  rdma_cm_id* const first = Ask(kPort + 1, others_);
  rdma_cm_id* const second = Ask(kPort + 1, others_);
  rdma_cm_id* const request = AwaitEvent(listener->channel, RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_NE(request->channel, listener->channel);
  ASSERT_EQ(MakeQp(request), 0);
  // Its call takes its own event, not the other request.
  EXPECT_EQ(rdma_accept(request, nullptr), 0) << std::strerror(errno);
  AwaitEvent(others_, RDMA_CM_EVENT_ESTABLISHED);
  rdma_cm_id* requested = nullptr;
  ASSERT_EQ(rdma_get_request(listener, &requested), 0) << std::strerror(errno);
  EXPECT_NE(requested->channel, listener->channel);
  EXPECT_NE(requested->channel, request->channel);
  for (rdma_cm_id* id : {request, first, second}) Destroy(id);
  for (rdma_cm_id* id : {requested, listener}) EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(CmEventsTest, ASynchronousDatagramListenerMayBeDestroyedBeforeItsAcceptedRequest) {
  rdma_cm_id *listener = nullptr, *asker = nullptr, *request = nullptr;
  ASSERT_EQ(rdma_create_id(nullptr, &listener, nullptr, RDMA_PS_UDP), 0);
  ASSERT_EQ(Bind(listener, kAddressOfOne, kPort + 1), 0);
  ASSERT_EQ(rdma_listen(listener, 1), 0);
  ASSERT_EQ(rdma_create_id(nullptr, &asker, nullptr, RDMA_PS_UDP), 0);
  Ipv4Address address(kAddressOfOne, kPort + 1);
  ASSERT_EQ(rdma_resolve_addr(asker, nullptr, address.get(), kResolveTimeoutMs), 0);
  ASSERT_EQ(rdma_resolve_route(asker, kResolveTimeoutMs), 0);
  ASSERT_EQ(rdma_migrate_id(asker, others_), 0);
  rdma_conn_param param{};
  param.qp_num = 0x123;  // for the reply: the request has no queue pair
  ASSERT_EQ(rdma_connect(asker, &param), 0);
  ASSERT_EQ(rdma_get_request(listener, &request), 0) << std::strerror(errno);
  EXPECT_NE(request->event, nullptr);
  ASSERT_EQ(rdma_accept(request, &param), 0) << std::strerror(errno);
  EXPECT_EQ(request->event, nullptr);
  AwaitEvent(others_, RDMA_CM_EVENT_ESTABLISHED);
  for (rdma_cm_id* id : {listener, request, asker}) EXPECT_EQ(rdma_destroy_id(id), 0);
}

// The manager also reports the removal of the device to identifiers that are created later.
TEST_F(CmEventsTest, SynchronousCallsFailOnceTheDeviceIsRemoved) {
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP), 0);
  {
    const ScopedWorkerOwnership owned(*Runtime::Get());
    cm::Event removal;
    removal.type = RDMA_CM_EVENT_DEVICE_REMOVAL;
    HandlerFor(Of(id))(removal);
  }
  Ipv4Address address(kAddressOfOne, kPort);
  EXPECT_EQ(rdma_resolve_addr(id, nullptr, address.get(), kResolveTimeoutMs), -1);
  EXPECT_EQ(errno, ENODEV);
  // The next call does not take the event that the failed call has caused.
  EXPECT_EQ(rdma_resolve_route(id, kResolveTimeoutMs), -1);
  EXPECT_EQ(errno, ENODEV);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(CmEventsTest, MigratingToTheSameChannelKeepsTheOrderOfEvents) {
  rdma_cm_id* ids[2] = {};
  Ipv4Address address(kAddressOfOne, kPort);
  for (rdma_cm_id*& id : ids) {
    ASSERT_EQ(rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP), 0);
    EXPECT_EQ(rdma_migrate_id(id, nullptr), -1) << "it is alone with its channel";
    EXPECT_EQ(errno, EINVAL);
    ASSERT_EQ(rdma_resolve_addr(id, nullptr, address.get(), kResolveTimeoutMs), 0);
    EXPECT_NE(id->event, nullptr);
    ASSERT_EQ(rdma_migrate_id(id, others_), 0);
    EXPECT_EQ(id->event, nullptr) << "it was librdmacm's";
  }
  for (rdma_cm_id* id : ids) {
    ASSERT_EQ(rdma_resolve_route(id, kResolveTimeoutMs), 0);
    ASSERT_EQ(rdma_migrate_id(ids[0], others_), 0);
  }
  for (rdma_cm_id* id : ids) {
    EXPECT_EQ(AwaitEvent(others_, RDMA_CM_EVENT_ROUTE_RESOLVED), id);
    EXPECT_EQ(rdma_destroy_id(id), 0);
  }
}

}  // namespace
}  // namespace pollux::compat
