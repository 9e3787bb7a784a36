// A SEND or WRITE that arrives: what the responders of RC and UC do alike with its packets.
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
    kPlaced,    // more of the message is to come
    kComplete,  // its last packet is in its place, and a receive that it took has completed
    // Nothing was placed, and the message has not moved:
    kNotReady,        // no receive is posted
    kInvalidRequest,  // a length that does not fit, or a right that the queue pair does not give
    kAccess,          // the key, its domain, its bounds or its rights
    kTooLong,         // for the receive
    // The receive has completed with an error:
    kReceiveFault,     // its own memory: IBV_WC_LOC_PROT_ERR
    kInvalidateFault,  // the key to invalidate
  };

  InboundMessage(verbs::QueuePair* qp, QpDiagnostics* diagnostics)
      : qp_(qp), diagnostics_(diagnostics) {}

  // Forgets the message under way. A receive that it took serves the next one.
  void Reset() { kind_ = Kind::kNone; }

  // Whether the packet's opcode may come now. Any operation may be asked about.
  bool SequenceIsLegal(const wire::RocePacket& packet) const {
    const bool begins = (packet.info->position & (wire::kFirst | wire::kOnly)) != 0;
    if (kind_ == Kind::kNone) return begins;
    const wire::Operation operation =
        kind_ == Kind::kSend ? wire::Operation::kSend : wire::Operation::kWrite;
    return !begins && packet.info->operation == operation;
  }
  // Whether its payload has a length that its place in a message allows.
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

  // A SEND or WRITE packet that is in sequence and of legal length.
  Result Accept(const wire::RocePacket& packet, PollContext& context) {
    const Result result = packet.info->operation == wire::Operation::kSend
                              ? AcceptSend(packet, context)
                              : AcceptWrite(packet, context);
    if (result == Result::kComplete) kind_ = Kind::kNone;
    return result;
  }

  // Whether a receive of one SGE from the queue pair's own queue is posted that holds a SEND of
  // `bytes` bytes.
  bool HasReceive(size_t bytes) const {
    return qp_->srq() == nullptr && qp_->TakeRecv() && qp_->recv().num_sge == 1 &&
           bytes <= qp_->recv().length;
  }
  // Execute a SEND of one packet for which HasReceive() holds, and an RDMA WRITE of one packet,
  // with its RETH before its payload; `bytes` in all, not 0. Return false, without any effect, if
  // the request is invalid: Accept() then says why.
  bool TryAcceptSend(const uint8_t* payload, size_t bytes, bool solicited, PollContext& context);
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
