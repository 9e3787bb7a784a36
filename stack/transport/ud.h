// Unreliable datagrams: one packet per message, each with an address handle.
#ifndef POLLUX_STACK_TRANSPORT_UD_H_
#define POLLUX_STACK_TRANSPORT_UD_H_

#include <cstdint>

#include "stack/base/types.h"
#include "stack/transport/diagnostics/qp_diagnostics.h"
#include "stack/transport/message/packet_builder.h"
#include "stack/transport/message/poll_context.h"
#include "stack/verbs/queue_pair.h"
#include "stack/wire/roce_packet.h"

namespace pollux::transport {

// The bytes before the payload of every received datagram: an IPv6 header, or 20 zero bytes and an
// IPv4 header. Source: IB specification, annex A17.
inline constexpr uint32_t kGrhBytes = 40;

// Owned by one worker.
class Ud {
 public:
  Ud(verbs::QueuePair* qp, QpDiagnostics* diagnostics)
      : qp_(qp), diagnostics_(diagnostics), builder_(diagnostics) {}

  void Start() { psn_ = Psn(qp_->attr.sq_psn); }

  // Handles a datagram whose state and ICRC have been checked.
  void OnPacket(const wire::RocePacket& packet, PollContext& context);
  // As Endpoint::Transmit(). A datagram is complete when it is passed to the egress.
  bool Transmit(PollContext& context, int* budget);

 private:
  bool SendHead(PollContext& context);

  verbs::QueuePair* qp_;
  QpDiagnostics* diagnostics_;
  PacketBuilder builder_;
  Psn psn_;
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_UD_H_
