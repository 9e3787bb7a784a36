// What a program does that the manuals of librdmacm have an error for: the documented error, and
// everything else still works.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "compat/rdmacm/cm_peer_for_test.h"
#include "compat/runtime/settings.h"
#include "stack/base/eventually_for_test.h"

namespace pollux::compat {
namespace {

class CmMisuseTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv(kSettingsVariable, (std::string(kPortOfOne) + "address=2001:db8::1/64\n").c_str(), 1);
  }
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
  // As programs do with queue pairs that rdma_cm does not know: from INIT, 0 or an errno.
  static int MoveByHand(rdma_cm_id* id, ibv_qp_state state) {
    for (const ibv_qp_state step : {IBV_QPS_RTR, state}) {
      ibv_qp_attr attr{};
      attr.qp_state = step;
      int mask = IBV_QP_STATE;
      if (state == IBV_QPS_RTS && rdma_init_qp_attr(id, &attr, &mask) != 0) return errno;
      if (state != IBV_QPS_RTS && step != state) continue;
      if (const int error = ibv_modify_qp(id->qp, &attr, mask); error != 0) return error;
    }
    return 0;
  }
  // How many wait in the channel.
  int Events() const {
    std::ifstream info("/proc/self/fdinfo/" + std::to_string(channel_->fd));
    for (std::string word; info >> word;) {
      if (word == "eventfd-count:" && info >> word) return std::stoi(word, nullptr, 16);
    }
    return 0;
  }
  bool AwaitEvents(int count) const {
    return Eventually([&] { return Events() >= count; });
  }

  rdma_event_channel* channel_ = nullptr;
  rdma_cm_id* id_ = nullptr;
};

#define EXPECT_ERRNO(call, number) \
  errno = 0;                       \
  EXPECT_EQ(call, -1);             \
  EXPECT_EQ(errno, number)

TEST_F(CmMisuseTest, CallsInTheWrongStateAreRefused) {
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

TEST_F(CmMisuseTest, InvalidAddressesAreRefused) {
  EXPECT_ERRNO(Bind(id_, "198.51.100.1", 0), EADDRNOTAVAIL);
  ASSERT_EQ(Bind(id_, kAddressOfOne, 7000), 0);
  EXPECT_ERRNO(Bind(id_, kAddressOfOne, 7001), EINVAL);
  ASSERT_EQ(rdma_listen(id_, 1), 0);
  EXPECT_ERRNO(rdma_listen(id_, 1), EINVAL);
  rdma_cm_id* second = Make();
  EXPECT_ERRNO(Bind(second, kAddressOfOne, 7000), EADDRINUSE);
  sockaddr_storage other{};
  other.ss_family = AF_UNIX;
  EXPECT_ERRNO(rdma_bind_addr(second, reinterpret_cast<sockaddr*>(&other)), EINVAL);
  Ipv4Address none("0.0.0.0", 7000);
  EXPECT_ERRNO(rdma_resolve_addr(second, nullptr, none.get(), 100), EINVAL);
  Ipv4Address unreachable("203.0.113.1", 7000);
  EXPECT_ERRNO(rdma_resolve_addr(second, nullptr, unreachable.get(), 100), ENETUNREACH);
  EXPECT_EQ(rdma_destroy_id(second), 0);
}

TEST_F(CmMisuseTest, AnAddressIsSharedWithReuseaddrAndHasOneListener) {
  int reuse = 1;
  rdma_cm_id* second = Make();
  EXPECT_ERRNO(rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &reuse, 1), EINVAL);
  for (rdma_cm_id* id : {id_, second}) {
    ASSERT_EQ(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &reuse, sizeof reuse),
              0);
    ASSERT_EQ(Bind(id, kAddressOfOne, 7001), 0) << std::strerror(errno);
  }
  rdma_cm_id* third = Make();
  EXPECT_ERRNO(Bind(third, kAddressOfOne, 7001), EADDRINUSE);
  EXPECT_ERRNO(rdma_listen(id_, 1), EADDRINUSE);
  EXPECT_ERRNO(rdma_listen(second, 1), EADDRINUSE);
  EXPECT_EQ(rdma_destroy_id(second), 0);
  EXPECT_EQ(rdma_listen(id_, 1), 0) << std::strerror(errno);
  EXPECT_ERRNO(rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &reuse, sizeof reuse),
               EINVAL);
  ASSERT_EQ(rdma_set_option(third, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &reuse, sizeof reuse),
            0);
  EXPECT_ERRNO(Bind(third, kAddressOfOne, 7001), EADDRINUSE);
  EXPECT_EQ(rdma_destroy_id(third), 0);
}

TEST_F(CmMisuseTest, APortForIpv6OnlyLeavesIpv4ToOthers) {
  int only = 1;
  EXPECT_ERRNO(rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only, 1), EINVAL);
  ASSERT_EQ(rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only, sizeof only), 0);
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_port = htons(7010);
  ASSERT_EQ(rdma_bind_addr(id_, reinterpret_cast<sockaddr*>(&any)), 0);
  // Until it listens.
  for (const int said : {0, 1}) {
    only = said;
    EXPECT_EQ(rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only, sizeof only), 0);
  }
  ASSERT_EQ(rdma_listen(id_, 1), 0);
  EXPECT_ERRNO(rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only, sizeof only),
               EINVAL);
  rdma_cm_id* ipv4 = Make();
  ASSERT_EQ(Bind(ipv4, "0.0.0.0", 7010), 0) << std::strerror(errno);
  ASSERT_EQ(rdma_listen(ipv4, 1), 0);
  rdma_event_channel* others = rdma_create_event_channel();
  rdma_cm_id* peer = Ask(7010, others);
  rdma_cm_event* event = nullptr;
  ASSERT_EQ(rdma_get_cm_event(channel_, &event), 0);
  EXPECT_EQ(event->listen_id, ipv4);
  rdma_cm_id* request = event->id;
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
  rdma_destroy_qp(peer);
  EXPECT_EQ(rdma_destroy_id(peer), 0);
  EXPECT_EQ(rdma_destroy_id(request), 0);
  EXPECT_EQ(rdma_destroy_id(ipv4), 0);
  rdma_destroy_event_channel(others);
}

// As in Linux: without the option, a listener at 0.0.0.0 also gets requests to IPv6 addresses.
TEST_F(CmMisuseTest, AfonlyRestrictsAnIpv4ListenerToIpv4) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(7014);
  inet_pton(AF_INET6, "2001:db8::1", &address.sin6_addr);
  for (int only : {1, 0}) {
    rdma_cm_id *listener = Make(), *peer = nullptr;
    ASSERT_EQ(rdma_set_option(listener, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only, sizeof only),
              0);
    ASSERT_EQ(Bind(listener, "0.0.0.0", 7014), 0);
    ASSERT_EQ(rdma_listen(listener, 1), 0);
    rdma_event_channel* others = rdma_create_event_channel();
    ASSERT_EQ(rdma_create_id(nullptr, &peer, nullptr, RDMA_PS_TCP), 0);
    auto* const to = reinterpret_cast<sockaddr*>(&address);
    ASSERT_EQ(rdma_resolve_addr(peer, nullptr, to, kResolveTimeoutMs), 0) << std::strerror(errno);
    ASSERT_EQ(rdma_resolve_route(peer, kResolveTimeoutMs), 0);
    ASSERT_EQ(MakeQp(peer), 0);
    ASSERT_EQ(rdma_migrate_id(peer, others), 0);
    rdma_conn_param param{};
    ASSERT_EQ(rdma_connect(peer, &param), 0);
    pollfd told[] = {{channel_->fd, POLLIN, 0}, {others->fd, POLLIN, 0}};
    ASSERT_GT(poll(told, 2, -1), 0);
    ASSERT_EQ(told[0].revents != 0, only == 0) << "a request";
    if (only == 1) {
      rdma_cm_event* event = nullptr;
      ASSERT_EQ(rdma_get_cm_event(others, &event), 0);
      EXPECT_EQ(event->event, RDMA_CM_EVENT_REJECTED) << rdma_event_str(event->event);
      EXPECT_EQ(event->status, 8) << "no listener";
      EXPECT_EQ(rdma_ack_cm_event(event), 0);
    } else {
      EXPECT_EQ(rdma_destroy_id(AwaitEvent(channel_, RDMA_CM_EVENT_CONNECT_REQUEST)), 0);
      AwaitEvent(others, RDMA_CM_EVENT_REJECTED);
    }
    rdma_destroy_qp(peer);
    for (rdma_cm_id* id : {peer, listener}) EXPECT_EQ(rdma_destroy_id(id), 0);
    rdma_destroy_event_channel(others);
  }
}

TEST_F(CmMisuseTest, AfonlyDoesNotChangeTheAddressesAndPortOfAnIpv4Binding) {
  int only = 1;
  ASSERT_EQ(rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only, sizeof only), 0);
  sockaddr_in6 elsewhere{};
  elsewhere.sin6_family = AF_INET6;
  elsewhere.sin6_port = htons(7013);
  inet_pton(AF_INET6, "2001:db8::99", &elsewhere.sin6_addr);
  EXPECT_ERRNO(rdma_bind_addr(id_, reinterpret_cast<sockaddr*>(&elsewhere)), EADDRNOTAVAIL);
  ASSERT_EQ(Bind(id_, "0.0.0.0", 7013), 0);
  rdma_cm_id* second = Make();
  EXPECT_ERRNO(Bind(second, kAddressOfOne, 7013), EADDRINUSE);
  EXPECT_EQ(rdma_destroy_id(second), 0);
}

// Programs take the MTU of a connection from there.
TEST_F(CmMisuseTest, BothSidesHaveThePathRecord) {
  rdma_cm_id* listener = Make();
  ASSERT_EQ(Bind(listener, kAddressOfOne, 7011), 0);
  ASSERT_EQ(rdma_listen(listener, 1), 0);
  rdma_event_channel* others = rdma_create_event_channel();
  rdma_cm_id* peer = MakePeer(kAddressOfOne, 7011);
  uint8_t type_of_service = 0x68;
  ASSERT_EQ(rdma_set_option(peer, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &type_of_service, 1), 0);
  EXPECT_EQ(rdma_migrate_id(peer, others), 0);
  rdma_conn_param param{};
  ASSERT_EQ(rdma_connect(peer, &param), 0);
  rdma_cm_id* request = AwaitEvent(channel_, RDMA_CM_EVENT_CONNECT_REQUEST);
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(peer->verbs, 1, &port), 0);
  for (const rdma_cm_id* id : {peer, request}) {
    ASSERT_EQ(id->route.num_paths, 1);
    const ibv_sa_path_rec& path = *id->route.path_rec;
    EXPECT_EQ(path.mtu, port.active_mtu);
    EXPECT_EQ(path.hop_limit, 64);
    EXPECT_EQ(std::memcmp(&path.sgid, &id->route.addr.addr.ibaddr.sgid, sizeof path.sgid), 0);
    EXPECT_EQ(std::memcmp(&path.dgid, &id->route.addr.addr.ibaddr.dgid, sizeof path.dgid), 0);
  }
  EXPECT_EQ(request->route.path_rec->traffic_class, type_of_service) << "of the REQ";
  rdma_destroy_qp(peer);
  EXPECT_EQ(rdma_destroy_id(peer), 0);
  EXPECT_EQ(rdma_destroy_id(request), 0);
  EXPECT_EQ(rdma_destroy_id(listener), 0);
  rdma_destroy_event_channel(others);
}

TEST_F(CmMisuseTest, ReadResourcesAboveTheDeviceLimitAreRefused) {
  rdma_cm_id* id = MakePeer(kAddressOfOne, 7030);
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(id->verbs, &device), 0);
  rdma_conn_param param{};
  param.responder_resources = static_cast<uint8_t>(device.max_qp_rd_atom + 1);
  EXPECT_ERRNO(rdma_connect(id, &param), EINVAL);
  EXPECT_ERRNO(rdma_accept(id, &param), EINVAL);
  param.responder_resources = 0;
  param.initiator_depth = static_cast<uint8_t>(device.max_qp_init_rd_atom + 1);
  EXPECT_ERRNO(rdma_connect(id, &param), EINVAL);
  rdma_destroy_qp(id);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

// The peer accepts what is not wanted any more.
TEST_F(CmMisuseTest, AQueuePairMayBeDestroyedWhileConnecting) {
  rdma_cm_id* listener = Make();
  ASSERT_EQ(Bind(listener, kAddressOfOne, 7012), 0);
  ASSERT_EQ(rdma_listen(listener, 1), 0);
  rdma_event_channel* others = rdma_create_event_channel();
  rdma_cm_id* peer = Ask(7012, others);
  rdma_destroy_qp(peer);
  rdma_cm_id* request = AwaitEvent(channel_, RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_EQ(MakeQp(request), 0);
  ASSERT_EQ(rdma_accept(request, nullptr), 0);
  EXPECT_EQ(AwaitEvent(others, RDMA_CM_EVENT_CONNECT_ERROR), peer);
  EXPECT_EQ(AwaitEvent(channel_, RDMA_CM_EVENT_REJECTED), request);
  rdma_destroy_qp(request);
  for (rdma_cm_id* id : {peer, request, listener}) EXPECT_EQ(rdma_destroy_id(id), 0);
  rdma_destroy_event_channel(others);
}

// rdma_accept(3) says so, and the peer is not left to wait.
TEST_F(CmMisuseTest, AQueuePairThatCannotBeConnectedIsNotAccepted) {
  rdma_cm_id* listener = Make();
  ASSERT_EQ(Bind(listener, kAddressOfOne, 7013), 0);
  ASSERT_EQ(rdma_listen(listener, 1), 0);
  rdma_event_channel* others = rdma_create_event_channel();
  for (const ibv_qp_state state : {IBV_QPS_RESET, IBV_QPS_RTS, IBV_QPS_ERR}) {
    for (const bool waits : {false, true}) {
      rdma_cm_id* peer = Ask(7013, others);
      rdma_cm_id* request = AwaitEvent(channel_, RDMA_CM_EVENT_CONNECT_REQUEST);
      ASSERT_EQ(MakeQp(request), 0);
      if (waits) {
        ASSERT_EQ(rdma_migrate_id(request, nullptr), 0);
      }
      ASSERT_EQ(MoveByHand(request, state), 0);
      EXPECT_ERRNO(rdma_accept(request, nullptr), EINVAL);
      EXPECT_EQ(request->qp->state, state == IBV_QPS_RESET ? state : IBV_QPS_ERR);
      EXPECT_EQ(AwaitEvent(others, RDMA_CM_EVENT_REJECTED), peer);
      EXPECT_ERRNO(rdma_accept(request, nullptr), EINVAL) << "it is asked once";
      pollfd heard{request->channel->fd, POLLIN, 0};
      EXPECT_EQ(poll(&heard, 1, 0), 0) << "the call has said it";
      for (rdma_cm_id* id : {peer, request}) {
        rdma_destroy_qp(id);
        EXPECT_EQ(rdma_destroy_id(id), 0);
      }
    }
  }
  EXPECT_EQ(rdma_destroy_id(listener), 0);
  rdma_destroy_event_channel(others);
}

TEST_F(CmMisuseTest, NullPointersAndUnknownOptionsAreRefused) {
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

TEST_F(CmMisuseTest, AChannelMayBeDestroyedBeforeItsIdentifiers) {
  rdma_event_channel* channel = rdma_create_event_channel();
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), 0);
  ASSERT_EQ(Bind(id, kAddressOfOne, 0), 0);
  rdma_destroy_event_channel(channel);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

// More channels than are kept go after it, and the identifiers go on.
TEST_F(CmMisuseTest, AChannelMayBeDestroyedLongBeforeItsIdentifiers) {
  rdma_event_channel* channel = rdma_create_event_channel();
  ASSERT_EQ(rdma_migrate_id(id_, channel), 0);
  ASSERT_EQ(Bind(id_, kAddressOfOne, 7020), 0);
  ASSERT_EQ(rdma_listen(id_, 2), 0);
  rdma_event_channel* others = rdma_create_event_channel();
  rdma_cm_id* before = Ask(7020, others);
  rdma_destroy_event_channel(channel);
  rdma_cm_id* after = Ask(7020, others);
  for (int i = 0; i < 100; ++i) rdma_destroy_event_channel(rdma_create_event_channel());
  // What stands in its place is nobody's, and has no descriptor.
  ASSERT_NE(id_->channel, nullptr);
  EXPECT_LT(id_->channel->fd, 0);
  rdma_cm_event* event = nullptr;
  EXPECT_ERRNO(rdma_get_cm_event(id_->channel, &event), EBADF);
  rdma_destroy_event_channel(id_->channel);
  ASSERT_EQ(rdma_destroy_id(id_), 0);
  // Nobody has heard of what they asked; it goes with the listener.
  for (int i = 0; i < 2; ++i) AwaitEvent(others, RDMA_CM_EVENT_REJECTED);
  for (rdma_cm_id* peer : {before, after}) {
    rdma_destroy_qp(peer);
    EXPECT_EQ(rdma_destroy_id(peer), 0);
  }
  rdma_destroy_event_channel(others);
  id_ = Make();
}

// One thread has an event of an identifier that another one destroys, and looks into it before it
// acknowledges the event.
TEST_F(CmMisuseTest, AnIdentifierMayBeDestroyedWhileItsEventIsTaken) {
  constexpr int kRounds = 300;
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, O_NONBLOCK), 0);
  std::atomic<bool> enough = false;
  std::thread taker([&] {
    while (!enough) {
      rdma_cm_event* event = nullptr;
      if (rdma_get_cm_event(channel_, &event) != 0) continue;
      EXPECT_EQ(event->id->channel, channel_);
      // The route is asked for below; its event may be taken before the identifier has gone.
      if (event->event == RDMA_CM_EVENT_ADDR_ERROR || event->event == RDMA_CM_EVENT_ROUTE_ERROR) {
        EXPECT_EQ(event->status, -ENODEV);
      } else {
        EXPECT_TRUE(event->event == RDMA_CM_EVENT_ADDR_RESOLVED ||
                    event->event == RDMA_CM_EVENT_ROUTE_RESOLVED)
            << rdma_event_str(event->event);
        EXPECT_NE(event->id->verbs, nullptr);
      }
      if (rdma_resolve_route(event->id, kResolveTimeoutMs) != 0) {
        EXPECT_EQ(errno, EINVAL);
      }
      EXPECT_EQ(rdma_ack_cm_event(event), 0);
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    rdma_cm_id* id = Make();
    Ipv4Address address(kAddressOfOne, 7021);
    EXPECT_EQ(rdma_resolve_addr(id, nullptr, address.get(), kResolveTimeoutMs), 0);
    EXPECT_EQ(rdma_destroy_id(id), 0);
  }
  enough = true;
  taker.join();
}

// And whatever else it calls until then finds an identifier that nothing can be done with.
TEST_F(CmMisuseTest, CallsOnAnIdentifierBeingDestroyedAreRefused) {
  rdma_cm_id* id = Make();
  ASSERT_EQ(Bind(id, kAddressOfOne, 7022), 0);
  Ipv4Address address(kAddressOfOne, 7023);
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, address.get(), kResolveTimeoutMs), 0);
  rdma_cm_event* event = nullptr;
  ASSERT_EQ(rdma_get_cm_event(channel_, &event), 0);
  ASSERT_EQ(event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
  std::thread destroyer([id] { EXPECT_EQ(rdma_destroy_id(id), 0); });
  // As soon as its port is free the native identifier has gone.
  while (Bind(id_, kAddressOfOne, 7022) != 0) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) rdma_destroy_id(Make());
  rdma_conn_param param{};
  uint8_t service = 0;
  ibv_qp_attr attr{};
  int mask = 0;
  attr.qp_state = IBV_QPS_RTR;
  EXPECT_ERRNO(rdma_resolve_route(event->id, kResolveTimeoutMs), EINVAL);
  EXPECT_ERRNO(rdma_resolve_addr(event->id, nullptr, address.get(), kResolveTimeoutMs), EINVAL);
  EXPECT_ERRNO(rdma_bind_addr(event->id, address.get()), EINVAL);
  EXPECT_ERRNO(rdma_listen(event->id, 1), EINVAL);
  EXPECT_ERRNO(MakeQp(event->id, 4), EINVAL);
  EXPECT_ERRNO(rdma_connect(event->id, &param), EINVAL);
  EXPECT_ERRNO(rdma_accept(event->id, &param), EINVAL);
  EXPECT_ERRNO(rdma_reject(event->id, nullptr, 0), EINVAL);
  EXPECT_ERRNO(rdma_disconnect(event->id), EINVAL);
  EXPECT_ERRNO(rdma_init_qp_attr(event->id, &attr, &mask), EINVAL);
  EXPECT_ERRNO(rdma_join_multicast(event->id, address.get(), nullptr), EINVAL);
  EXPECT_EQ(rdma_set_option(event->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &service, 1), 0);
  EXPECT_EQ(rdma_notify(event->id, IBV_EVENT_COMM_EST), 0);
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
  destroyer.join();
}

// A peer asks before the listener's program has looked; then the listener goes, and with it what it
// was asked.
TEST_F(CmMisuseTest, UnreadRequestsAreDroppedWithTheirListener) {
  rdma_cm_id* listener = Make();
  ASSERT_EQ(Bind(listener, kAddressOfOne, 7471), 0);
  ASSERT_EQ(rdma_listen(listener, 4), 0);
  rdma_event_channel* others = rdma_create_event_channel();
  rdma_cm_id* peer = Ask(7471, others);
  ASSERT_TRUE(AwaitEvents(1));
  ASSERT_EQ(rdma_destroy_id(listener), 0);
  EXPECT_EQ(AwaitEvent(others, RDMA_CM_EVENT_REJECTED), peer);
  rdma_destroy_qp(peer);
  ASSERT_EQ(rdma_destroy_id(peer), 0);
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, O_NONBLOCK), 0);
  rdma_cm_event* event = nullptr;
  EXPECT_ERRNO(rdma_get_cm_event(channel_, &event), EAGAIN);
  rdma_destroy_event_channel(others);
}

// A program looks at all that have asked before it accepts any.
TEST_F(CmMisuseTest, TheBacklogCountsOnlyUnreadRequests) {
  constexpr uint16_t kPort = 7476;
  rdma_cm_id* listener = Make();
  ASSERT_EQ(Bind(listener, kAddressOfOne, kPort), 0);
  ASSERT_EQ(rdma_listen(listener, 1), 0);
  rdma_event_channel* others = rdma_create_event_channel();
  std::vector<rdma_cm_id*> peers, requests;
  for (int i = 0; i < 3; ++i) {
    peers.push_back(Ask(kPort, others));
    ASSERT_TRUE(AwaitEvents(1));
    requests.push_back(AwaitEvent(channel_, RDMA_CM_EVENT_CONNECT_REQUEST));
  }
  for (rdma_cm_id* id : peers) {
    rdma_destroy_qp(id);
    EXPECT_EQ(rdma_destroy_id(id), 0);
  }
  for (rdma_cm_id* id : requests) EXPECT_EQ(rdma_destroy_id(id), 0);
  EXPECT_EQ(rdma_destroy_id(listener), 0);
  rdma_destroy_event_channel(others);
}

// A peer asks, as above; the listener is moved to another channel, where the program hears of it.
TEST_F(CmMisuseTest, UnreadRequestsMigrateWithTheirListener) {
  rdma_cm_id* listener = Make();
  ASSERT_EQ(Bind(listener, kAddressOfOne, 7472), 0);
  ASSERT_EQ(rdma_listen(listener, 4), 0);
  rdma_event_channel* others = rdma_create_event_channel();
  rdma_cm_id* peer = Ask(7472, others);
  ASSERT_TRUE(AwaitEvents(1));
  rdma_event_channel* fresh = rdma_create_event_channel();
  ASSERT_EQ(rdma_migrate_id(listener, fresh), 0);
  rdma_cm_id* request = AwaitEvent(fresh, RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(request->channel, fresh);
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, O_NONBLOCK), 0);
  rdma_cm_event* event = nullptr;
  EXPECT_ERRNO(rdma_get_cm_event(channel_, &event), EAGAIN);
  ASSERT_EQ(rdma_reject(request, nullptr, 0), 0);
  EXPECT_EQ(AwaitEvent(others, RDMA_CM_EVENT_REJECTED), peer);
  rdma_destroy_qp(peer);
  for (rdma_cm_id* id : {request, peer}) EXPECT_EQ(rdma_destroy_id(id), 0);
  EXPECT_EQ(rdma_destroy_id(listener), 0);
  rdma_destroy_event_channel(fresh);
  rdma_destroy_event_channel(others);
}

// A program that looks for events and completions in turn hears of the end when it has what came
// before, or has looked often enough; of which it may be reminded by changes of the descriptor
// alone.
TEST_F(CmMisuseTest, DisconnectedComesAfterReceivedMessages) {
  constexpr int kMaxLooks = 1000;
  constexpr int kTimeoutMs = std::chrono::milliseconds(kHangGuard).count();
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
    ASSERT_EQ(epoll_wait(changes, &change, 1, kTimeoutMs), 1);
    rdma_cm_event* event = nullptr;
    EXPECT_ERRNO(rdma_get_cm_event(channel_, &event), EAGAIN);
    if (program == Program::kPolls) {
      ASSERT_EQ(ibv_poll_cq(id->recv_cq, 1, &wc), 1);
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
      EXPECT_EQ(wc.wr_id, 5u);
    }
    for (int looks = 0; rdma_get_cm_event(channel_, &event) != 0; ++looks) {
      ASSERT_LT(looks, kMaxLooks);
      if (program != Program::kWaitsForChanges) continue;
      ASSERT_EQ(epoll_wait(changes, &change, 1, kTimeoutMs), 1);
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
TEST_F(CmMisuseTest, DisconnectedDoesNotWaitForMessagesOfOtherConnections) {
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

TEST_F(CmMisuseTest, AQueuePairUsesTheSrqOfItsIdentifier) {
  ASSERT_EQ(Bind(id_, kAddressOfOne, 0), 0);
  ibv_srq_init_attr init{};
  init.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
  ASSERT_EQ(rdma_create_srq(id_, nullptr, &init), 0);
  ASSERT_EQ(MakeQp(id_), 0);
  EXPECT_EQ(id_->qp->srq, id_->srq);
  rdma_destroy_qp(id_);
  rdma_destroy_srq(id_);
}

TEST_F(CmMisuseTest, UnsupportedEndpointTypesAreRefused) {
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

// As ibv_create_qp_ex(), which takes them too where there are none.
TEST_F(CmMisuseTest, UnsupportedQueuePairFlagsAreRefused) {
  ASSERT_EQ(Bind(id_, kAddressOfOne, 0), 0);
  ibv_qp_init_attr_ex init{};
  init.cap = ReliableQp(1).cap;
  init.qp_type = IBV_QPT_RC;
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
  init.pd = id_->pd;
  init.create_flags = IBV_QP_CREATE_SCATTER_FCS;
  EXPECT_ERRNO(rdma_create_qp_ex(id_, &init), EOPNOTSUPP);
  init.create_flags = 0;
  init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_TSO;
  EXPECT_ERRNO(rdma_create_qp_ex(id_, &init), EOPNOTSUPP);
  init.send_ops_flags = IBV_QP_EX_WITH_SEND;
  EXPECT_EQ(rdma_create_qp_ex(id_, &init), 0);
  rdma_destroy_qp(id_);
}

}  // namespace
}  // namespace pollux::compat
