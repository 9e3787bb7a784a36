// Calls in both directions on one connection. Source: RFC 8167.
#ifndef POLLUX_RPCRDMA_CONNECTION_MESSAGE_DEMUX_H_
#define POLLUX_RPCRDMA_CONNECTION_MESSAGE_DEMUX_H_

#include <cstdint>
#include <optional>

#include "rpcrdma/connection/connection.h"

namespace pollux::rpcrdma {

// Whether a received message is a call or a reply.
enum class Direction : uint8_t { kCall, kReply };

// Determined by the RPC header's msg_type if there is a Payload stream, otherwise by the transport
// header: an RDMA_NOMSG with a Read list is a call, one with only a Reply chunk is a reply (RFC
// 8166 section 4.3.1), and an RDMA_ERROR is a reply. Returns nothing if the message does not show
// its direction, or is not an RPC message.
std::optional<Direction> DirectionOf(const Connection::Arrival& arrival);

// Passes each message to the role for its direction. A message that does not show its direction is
// treated as a call by a server. A client treats it as the reply if its call is outstanding,
// otherwise as a call, which is answered by an error. The two directions have separate credits and
// XIDs. Each role has its own send buffers, and therefore its own cookies.
class MessageDemux : public Connection::Role {
 public:
  // `forward`: what received messages of the forward direction are: calls at a server, replies at a
  // client. Both roles must outlive this object.
  MessageDemux(Direction forward, Connection::Role* calls, SendBuffers call_buffers,
               Connection::Role* replies)
      : forward_(forward), calls_(calls), call_buffers_(call_buffers), replies_(replies) {}

  void OnMessage(const Connection::Arrival& arrival) override;
  void OnSent(uint32_t cookie) override { Owner(cookie)->OnSent(cookie); }
  void OnFailed(uint32_t cookie, ibv_wc_status status) override {
    Owner(cookie)->OnFailed(cookie, status);
  }

 private:
  Direction Guess(const Connection::Arrival& arrival) const;
  Connection::Role* Owner(uint32_t cookie) const {
    return call_buffers_.Contain(cookie) ? calls_ : replies_;
  }

  Direction forward_;
  Connection::Role* calls_;    // a Responder
  SendBuffers call_buffers_;   // the Responder's
  Connection::Role* replies_;  // a Requester
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_CONNECTION_MESSAGE_DEMUX_H_
