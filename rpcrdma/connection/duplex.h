// Calls in both directions on one connection. Source: RFC 8167.
#ifndef POLLUX_RPCRDMA_CONNECTION_DUPLEX_H_
#define POLLUX_RPCRDMA_CONNECTION_DUPLEX_H_

#include <cstdint>

#include "rpcrdma/connection/connection.h"

namespace pollux::rpcrdma {

// What a message is to whoever receives it.
enum class Direction : uint8_t { kCall, kReply };

// By the RPC header's msg_type, where there is a Payload stream. Else by what the transport header
// can only be: an RDMA_NOMSG with a Read list is a call (RFC 8166 section 4.3.1), an RDMA_ERROR
// answers one; and where it tells nothing, or is none, what it is in the forward direction.
Direction DirectionOf(const Connection::Arrival& arrival, Direction forward);

// Gives each message to the role that it is for. Two sets of credits and of XIDs: neither direction
// knows of the other. Each role has send buffers, and with them cookies, of its own.
class Duplex : public Connection::Role {
 public:
  // `forward`: what the messages of the forward direction are here; at a server they are calls.
  // Both roles outlive this.
  Duplex(Direction forward, Connection::Role* calls, SendBuffers call_buffers,
         Connection::Role* replies)
      : forward_(forward), calls_(calls), call_buffers_(call_buffers), replies_(replies) {}

  void OnMessage(const Connection::Arrival& arrival) override;
  void OnSent(uint32_t cookie) override { Owner(cookie)->OnSent(cookie); }
  void OnFailed(uint32_t cookie, ibv_wc_status status) override {
    Owner(cookie)->OnFailed(cookie, status);
  }

 private:
  Connection::Role* Owner(uint32_t cookie) const {
    return call_buffers_.Contain(cookie) ? calls_ : replies_;
  }

  Direction forward_;
  Connection::Role* calls_;    // a Responder
  SendBuffers call_buffers_;   // the Responder's
  Connection::Role* replies_;  // a Requester
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_CONNECTION_DUPLEX_H_
