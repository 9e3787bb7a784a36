// Unreliable connections: SENDs and WRITEs of any length, never acknowledged or retransmitted.
#ifndef POLLUX_STACK_TRANSPORT_UC_H_
#define POLLUX_STACK_TRANSPORT_UC_H_

#include <cstdint>

#include "stack/base/types.h"
#include "stack/transport/diagnostics/qp_diagnostics.h"
#include "stack/transport/message/inbound_message.h"
#include "stack/transport/message/packet_builder.h"
#include "stack/transport/message/poll_context.h"
#include "stack/verbs/queue_pair.h"
#include "stack/wire/roce_packet.h"

namespace pollux::transport {

// A message that loses a packet is dropped, and the connection continues: packets are dropped until
// the next message begins. Owned by one worker. Source: IB specification 9.8.2.
class Uc {
 public:
  Uc(verbs::QueuePair* qp, QpDiagnostics* diagnostics)
      : qp_(qp), diagnostics_(diagnostics), message_(qp, diagnostics), builder_(diagnostics) {}

  // Apply the attributes of the transition to RTR, and of the one to RTS.
  void StartReceiving();
  void StartSending();
  // Continues with the next work request after a send error or a drained send queue (SQE or SQD to
  // RTS).
  void ResumeSending();
  // Whether part of the oldest work request has been sent.
  bool HasBegun() const { return packet_ > 0; }

  // Handles a packet whose state, address and ICRC have been checked.
  void OnPacket(const wire::RocePacket& packet, PollContext& context);
  // As Endpoint::Transmit(). A work request is complete when its last packet is passed to the
  // egress.
  bool Transmit(PollContext& context, int* budget);

 private:
  bool SendNext(PollContext& context);
  void DropMessage(Drop reason, PollContext& context);

  verbs::QueuePair* qp_;
  QpDiagnostics* diagnostics_;
  InboundMessage message_;
  Psn expected_psn_;
  bool communication_established_ = false;

  PacketBuilder builder_;
  Psn next_psn_;
  uint32_t packet_ = 0;  // the next of the oldest work request
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_UC_H_
