// An incoming SEND or WRITE message: the common part of the responders of RC and UC.
#ifndef POLLUX_STACK_TRANSPORT_MESSAGE_INBOUND_MESSAGE_H_
#define POLLUX_STACK_TRANSPORT_MESSAGE_INBOUND_MESSAGE_H_

#include <cstdint>

#include "stack/transport/diagnostics/qp_diagnostics.h"
#include "stack/transport/message/poll_context.h"
#include "stack/verbs/queue_pair.h"
#include "stack/wire/ext_headers.h"
#include "stack/wire/roce_packet.h"

namespace pollux::transport {

class InboundMessage {
 public:
  enum class Result : uint8_t {
    kPlaced,    // more of the message follows
    kComplete,  // the last packet is placed, and a receive that was taken has completed
    // Nothing was placed, and the state of the message is unchanged:
    kNotReady,        // no receive is posted
    kInvalidRequest,  // wrong length, or a right that the queue pair does not grant
    kAccess,          // the key, its domain, bounds or rights do not allow it
    kTooLong,         // longer than the receive
    // The receive has completed with an error:
    kReceiveFault,     // its own memory does not allow it: IBV_WC_LOC_PROT_ERR
    kInvalidateFault,  // the key to invalidate is not valid
  };

  InboundMessage(verbs::QueuePair* qp, QpDiagnostics* diagnostics)
      : qp_(qp), diagnostics_(diagnostics) {}

  // Forgets the current message. A receive that it took is used for the next one.
  void Reset() { kind_ = Kind::kNone; }

  // Whether a packet with this opcode may come next. The packet may be of any operation.
  bool SequenceIsLegal(const wire::RocePacket& packet) const {
    const bool begins = (packet.info->position & (wire::kFirst | wire::kOnly)) != 0;
    if (kind_ == Kind::kNone) return begins;
    const wire::Operation operation =
        kind_ == Kind::kSend ? wire::Operation::kSend : wire::Operation::kWrite;
    return !begins && packet.info->operation == operation;
  }
  // Whether the payload has a legal length for its position in a message.
  bool LengthIsLegal(const wire::RocePacket& packet) const {
    const uint32_t mtu = qp_->PathMtuBytes();
    switch (packet.info->position) {
      case wire::kFirst:
      case wire::kMiddle:
        return packet.payload_length == mtu;
      case wire::kLast:
        return packet.payload_length >= 1 && packet.payload_length <= mtu;
      default:
        return packet.payload_length <= mtu;
    }
  }

  // Handles a SEND or WRITE packet that is in sequence and of legal length.
  Result Accept(const wire::RocePacket& packet, PollContext& context) {
    const Result result = packet.info->operation == wire::Operation::kSend
                              ? AcceptSend(packet, context)
                              : AcceptWrite(packet, context);
    if (result == Result::kComplete) kind_ = Kind::kNone;
    return result;
  }

  // Execute a SEND of one packet, whose receive is from QueuePair::RecvForPacket(), or an RDMA
  // WRITE of one packet, with its RETH before its payload. `bytes` is the size of the payload and,
  // for a WRITE, the RETH; not 0. Return false, without any effect, if the request is invalid:
  // Accept() then returns the reason.
  bool TryAcceptSend(const verbs::PostedRecv& receive, const uint8_t* payload, size_t bytes,
                     bool solicited, PollContext& context);
  // Whether TryAcceptSend() would accept the payload if its receive were valid. Also false while
  // most_plain_bytes() is 0, which saves a check of the state: Accept() then takes the message.
  bool MayAcceptSend(size_t bytes) const {
    return kind_ == Kind::kNone && bytes <= qp_->most_plain_bytes();
  }
  bool TryAcceptWrite(const uint8_t* reth_and_payload, size_t bytes);

 private:
  enum class Kind : uint8_t { kNone, kSend, kWrite };

  Result AcceptSend(const wire::RocePacket& packet, PollContext& context);
  Result AcceptWrite(const wire::RocePacket& packet, PollContext& context);
  memory::AccessResult Check(const wire::Reth& reth, uint64_t offset, uint32_t bytes,
                             uint8_t** at) const;

  verbs::QueuePair* qp_;
  QpDiagnostics* diagnostics_;
  Kind kind_ = Kind::kNone;
  wire::Reth write_;    // of the WRITE
  uint32_t bytes_ = 0;  // received so far
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_MESSAGE_INBOUND_MESSAGE_H_
