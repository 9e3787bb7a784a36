// Identifiers of rdma_cm with queue pairs, for tests that need connections.
#ifndef POLLUX_COMPAT_RDMACM_CM_PEER_FOR_TEST_H_
#define POLLUX_COMPAT_RDMACM_CM_PEER_FOR_TEST_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <cstring>

#include "compat/verbs/reliable_qp_for_test.h"

namespace pollux::compat {

// A port that receives its own frames, so that it is both ends of a connection.
inline constexpr char kPortOfOne[] = "port=net_ring0\naddress=192.0.2.1/24\nmemory=128\n";
inline constexpr char kAddressOfOne[] = "192.0.2.1";
inline constexpr int kResolveTimeoutMs = 100'000;

// An address in the form that rdma_cm's calls take.
class Ipv4Address {
 public:
  Ipv4Address(const char* text, uint16_t port) {
    address_.sin_family = AF_INET;
    address_.sin_port = htons(port);
    inet_pton(AF_INET, text, &address_.sin_addr);
  }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&address_); }

 private:
  sockaddr_in address_{};
};

inline int Bind(rdma_cm_id* id, const char* text, uint16_t port) {
  return rdma_bind_addr(id, Ipv4Address(text, port).get());
}

inline int MakeQp(rdma_cm_id* id, uint32_t depth = 16) {
  ibv_qp_init_attr init = ReliableQp(depth);
  return rdma_create_qp(id, nullptr, &init);
}

// An identifier whose calls wait, with a resolved route to the listener and a queue pair.
inline rdma_cm_id* MakePeer(const char* listener, uint16_t port, uint32_t depth = 16) {
  rdma_cm_id* peer = nullptr;
  EXPECT_EQ(rdma_create_id(nullptr, &peer, nullptr, RDMA_PS_TCP), 0);
  Ipv4Address address(listener, port);
  EXPECT_EQ(rdma_resolve_addr(peer, nullptr, address.get(), kResolveTimeoutMs), 0)
      << std::strerror(errno);
  EXPECT_EQ(rdma_resolve_route(peer, kResolveTimeoutMs), 0) << std::strerror(errno);
  EXPECT_EQ(MakeQp(peer, depth), 0) << std::strerror(errno);
  return peer;
}

// An identifier that has sent a connection request to a listener of the same port. Its events
// arrive in `channel`.
inline rdma_cm_id* Ask(uint16_t port, rdma_event_channel* channel) {
  rdma_cm_id* peer = MakePeer(kAddressOfOne, port);
  EXPECT_EQ(rdma_migrate_id(peer, channel), 0);
  rdma_conn_param param{};
  EXPECT_EQ(rdma_connect(peer, &param), 0);
  return peer;
}

// Takes the next event of the channel, which must have the given type. Returns its identifier.
inline rdma_cm_id* AwaitEvent(rdma_event_channel* channel, rdma_cm_event_type type) {
  rdma_cm_event* event = nullptr;
  EXPECT_EQ(rdma_get_cm_event(channel, &event), 0) << std::strerror(errno);
  EXPECT_EQ(event->event, type) << rdma_event_str(event->event) << " " << event->status;
  rdma_cm_id* const id = event->id;
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
  return id;
}

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_RDMACM_CM_PEER_FOR_TEST_H_
