// Calls in both directions on one connection. Source: RFC 8167.
#ifndef POLLUX_RPCRDMA_CONNECTION_MESSAGE_DEMUX_H_
#define POLLUX_RPCRDMA_CONNECTION_MESSAGE_DEMUX_H_

#include <cstdint>
#include <optional>

#include "rpcrdma/connection/connection.h"

namespace pollux::rpcrdma {

// What a message is to whoever receives it.
enum class Direction : uint8_t { kCall, kReply };

// By the RPC header's msg_type, where there is a Payload stream. Else by what the transport header
// can only be: an RDMA_NOMSG is a call with a Read list, and a reply without one but with a Reply
// chunk (RFC 8166 section 4.3.1); an RDMA_ERROR answers a call. Nothing where the message does not
// tell, or is none.
std::optional<Direction> DirectionOf(const Connection::Arrival& arrival);

// Gives each message to the role that it is for. One that does not tell is a call at a server; at a
// client it is the reply to the call that it names, and else a call, to be answered by an error.
// Two sets of credits and of XIDs: neither direction knows of the other. Each role has send
// buffers, and with them cookies, of its own.
class MessageDemux : public Connection::Role {
 public:
  // `forward`: what the messages of the forward direction are here; at a server they are calls.
  // Both roles outlive this.
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
