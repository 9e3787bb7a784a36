// Identifiers, parameters and events of connection management, modelled on rdma_cm's.
#ifndef POLLUX_CM_CONNECTION_ID_H_
#define POLLUX_CM_CONNECTION_ID_H_

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/types/span.h"
#include "stack/base/socket_address.h"

namespace pollux::engine {
class Worker;
}
namespace pollux::verbs {
class QueuePair;
}

namespace pollux::cm {

class Id;

// As rdma_conn_param. Depths and resources are this side's when given to CM, and what the peer
// offers (already swapped, as librdmacm does) in an event.
struct ConnectionParam {
  // At most 56 bytes in Connect() (after the CMA header), 196 in Accept(). RDMA_PS_UDP uses only
  // this, with at most 180 and 136 bytes, and `qp_num`. Not owned; copied by the call.
  absl::Span<const uint8_t> private_data{};
  uint8_t responder_resources = 16;
  uint8_t initiator_depth = 16;
  bool flow_control = false;
  uint8_t retry_count = 7;      // 0..7; larger values are reduced to 7
  uint8_t rnr_retry_count = 7;  // 0..7; 7: without limit
  // For this side's queue pair, codes as in ibv_qp_attr.
  uint8_t ack_timeout = 0;  // 4.096 us * 2^n; 0: derived from the path's lifetime and the ACK delay
  uint8_t min_rnr_timer = 12;  // 0.64 ms
  // In a call: the queue pair of an identifier without BindQp(). For RDMA_PS_UDP it is the one that
  // Accept() announces, otherwise the one whose state the user changes (see QueryQpAttr). In
  // CONNECT_REQUEST, CONNECT_RESPONSE and ESTABLISHED: the peer's queue pair.
  uint32_t qp_num = 0;
  // Whether a queue pair uses a shared receive queue. In a call: this side's, only needed for a
  // queue pair whose state the user changes. In the events above: the peer's.
  bool srq = false;

  // All zeros, for events that carry no parameters, as rdma_cm's.
  static constexpr ConnectionParam Unsaid() {
    return {.responder_resources = 0,
            .initiator_depth = 0,
            .retry_count = 0,
            .rnr_retry_count = 0,
            .min_rnr_timer = 0};
  }
};

// As rdma_ud_param: the destination for datagrams of an RDMA_PS_UDP identifier.
struct UdParam {
  absl::Span<const uint8_t> private_data{};
  ibv_ah_attr ah_attr{};
  uint32_t qp_num = 0;
  uint32_t qkey = 0;
};

// As rdma_cm_event. Spans are valid only during the handler.
struct Event {
  rdma_cm_event_type type;
  // As rdma_cm's: -errno; for RDMA_CM_EVENT_REJECTED the REJ reason; for RDMA_CM_EVENT_UNREACHABLE
  // the SIDR_REP status (1 unsupported, 2 rejected, ...) if the peer has replied.
  int status = 0;
  Id* id = nullptr;         // for CONNECT_REQUEST: the new identifier, to accept, reject or destroy
  Id* listen_id = nullptr;  // for CONNECT_REQUEST
  // Valid for CONNECT_REQUEST, for CONNECT_RESPONSE and for ESTABLISHED on the active side, except
  // `retry_count`, which only a REQ carries; private data also for REJECTED. Private data always
  // has the full size of its field (56, 196 in a REP, 148), since CM does not transmit its length.
  // The RTU's private data is not reported: ESTABLISHED on the passive side carries no parameters,
  // as rdma_cm's.
  //
  // RDMA_CM_EVENT_DEVICE_REMOVAL is delivered once to every identifier when the interface of the
  // device is gone, and to each identifier created later. Nothing is sent or received any more.
  ConnectionParam param = ConnectionParam::Unsaid();
  // Replaces `param` for RDMA_PS_UDP: private data (180 bytes) for CONNECT_REQUEST, all members
  // (136 bytes) for ESTABLISHED, private data for UNREACHABLE, all but private data for
  // MULTICAST_JOIN and MULTICAST_ERROR.
  UdParam ud{};
};
using EventHandler = absl::AnyInvocable<void(const Event&)>;

// An rdma_cm_id. Owned by the manager that created it, and used only on its core.
class Id {
 public:
  // All zeros mean any address of the device, until a peer is known.
  const SocketAddress& local() const { return local_; }
  const SocketAddress& peer() const { return peer_; }
  rdma_port_space port_space() const { return port_space_; }
  verbs::QueuePair* qp() const { return qp_; }
  void* context = nullptr;  // for the user

 protected:
  Id() = default;
  ~Id() = default;
  SocketAddress local_;
  SocketAddress peer_;
  rdma_port_space port_space_ = RDMA_PS_TCP;
  verbs::QueuePair* qp_ = nullptr;
  engine::Worker* qp_owner_ = nullptr;
};

// The path to the peer. The MTU is the port's until the peer's REQ or REP has arrived, and then the
// connection's.
struct Path {
  ibv_mtu mtu = IBV_MTU_1024;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint8_t packet_lifetime = 0;  // a time-out code
};

// See Manager::SetTrace() and Manager::SetFailureHandler().
using Trace = absl::AnyInvocable<void(bool outgoing, absl::Span<const uint8_t> mad)>;
using FailureHandler = absl::AnyInvocable<void(const Id& id, const std::string& why)>;

inline constexpr size_t kMaxGroupsOfId = 16;

// Determines the manager that answers a request if several managers of a device (CreateAll) listen
// for the service. A manager without a listener passes a request on to the next manager with one.
enum class Placement : uint8_t {
  // Spread evenly, by the client's address and queue pair number.
  kByConnection,
  // All connections of a client are at one manager, chosen by the client's address, also after it
  // connects again: for services that remember their clients.
  kByClient,
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_ID_H_
