// What a user of connection management holds and hears: identifiers, parameters, events; as
// rdma_cm's.
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

// As rdma_conn_param; depths and resources are the sender's view on the way out, and what the peer
// offers to the receiver (already swapped, as librdmacm does) on the way in.
struct ConnectionParam {
  // At most 56 bytes in Connect (a CMA header stands before it), 196 in Accept; for RDMA_PS_UDP,
  // which uses nothing else here but `qp_num`, 180 and 136.
  absl::Span<const uint8_t> private_data{};
  uint8_t responder_resources = 16;
  uint8_t initiator_depth = 16;
  bool flow_control = false;
  uint8_t retry_count = 7;      // 0..7; larger values are cut to 7
  uint8_t rnr_retry_count = 7;  // 0..7; 7 means for ever
  // Of this side's queue pair, codes as in ibv_qp_attr.
  uint8_t ack_timeout = 0;     // 4.096 us * 2^n; 0: from the path's lifetime and the ACK delay
  uint8_t min_rnr_timer = 12;  // 0.64 ms
  // On the way out the queue pair of an identifier that was given none by BindQp: of RDMA_PS_UDP
  // the one that Accept names, else the user's own, see QueryQpAttr. In CONNECT_REQUEST,
  // CONNECT_RESPONSE and ESTABLISHED the peer's.
  uint32_t qp_num = 0;
  // Whether this side's queue pair receives from a shared queue: on the way out of one of the
  // user's own, CM knows of those that it was given. In the same events the peer's.
  bool srq = false;

  // Of an event that says nothing of them, as rdma_cm's: all zeros.
  static constexpr ConnectionParam Unsaid() {
    return {.responder_resources = 0,
            .initiator_depth = 0,
            .retry_count = 0,
            .rnr_retry_count = 0,
            .min_rnr_timer = 0};
  }
};

// As rdma_ud_param: whom to send to, for identifiers of RDMA_PS_UDP.
struct UdParam {
  absl::Span<const uint8_t> private_data{};
  ibv_ah_attr ah_attr{};
  uint32_t qp_num = 0;
  uint32_t qkey = 0;
};

// As rdma_cm_event. Spans are valid only during the handler.
struct Event {
  rdma_cm_event_type type;
  // As rdma_cm's: -errno, or the REJ reason for RDMA_CM_EVENT_REJECTED, or the SIDR_REP status
  // (1 unsupported, 2 rejected, ...) for RDMA_CM_EVENT_UNREACHABLE when the peer has answered.
  int status = 0;
  Id* id = nullptr;         // for CONNECT_REQUEST: the new identifier, the handler's to accept,
                            // reject or destroy
  Id* listen_id = nullptr;  // for CONNECT_REQUEST
  // RDMA_CM_EVENT_DEVICE_REMOVAL comes to every identifier, once, when the interface under the
  // device is gone, and to each that is made after that: nothing is sent or received any more.
  // For CONNECT_REQUEST, CONNECT_RESPONSE and ESTABLISHED of the active side, but for
  // `retry_count`, which the REQ alone says; for REJECTED private data. Private data comes with all
  // the bytes that the message has room for (56, 196 in REP, 148): CM does not carry its length.
  // That of the RTU is not told of: ESTABLISHED of the passive side says nothing, as rdma_cm's.
  ConnectionParam param = ConnectionParam::Unsaid();
  // In its place for identifiers of RDMA_PS_UDP: private data (180 bytes) with CONNECT_REQUEST, all
  // of it (136) with ESTABLISHED, private data with UNREACHABLE, all but that with MULTICAST_JOIN
  // and MULTICAST_ERROR.
  UdParam ud{};
};
using EventHandler = absl::AnyInvocable<void(const Event&)>;

// An rdma_cm_id. Belongs to the manager that made it, and to its core.
class Id {
 public:
  // All zeros stand for any address of the device, until a peer is known.
  const SocketAddress& local() const { return local_; }
  const SocketAddress& peer() const { return peer_; }
  rdma_port_space port_space() const { return port_space_; }
  verbs::QueuePair* qp() const { return qp_; }
  void* context = nullptr;  // the user's

 protected:
  Id() = default;
  ~Id() = default;
  SocketAddress local_;
  SocketAddress peer_;
  rdma_port_space port_space_ = RDMA_PS_TCP;
  verbs::QueuePair* qp_ = nullptr;
  engine::Worker* qp_owner_ = nullptr;
};

// The way to the peer, as far as it is agreed: the MTU is the connection's once the peer's REQ or
// REP is here, before that the port's.
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

// Where the requests for a service are answered when several managers of a device (CreateAll) have
// a listener for it. Without a listener of its own a manager leaves them to the next one that has.
enum class Placement : uint8_t {
  // Spread evenly: by who asks, and for which of its queue pairs.
  kByConnection,
  // All of a client's (its address) by one manager, in this life and in those to come: for services
  // that remember their clients.
  kByClient,
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_ID_H_
