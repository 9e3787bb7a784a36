// The responder side of a reliable connection: executes requests, acknowledges, answers READs and
// atomics.
#ifndef POLLUX_STACK_TRANSPORT_RC_RC_RESPONDER_H_
#define POLLUX_STACK_TRANSPORT_RC_RC_RESPONDER_H_

#include <cstdint>
#include <limits>

#include "stack/base/planted_fault.h"
#include "stack/base/prefetch.h"
#include "stack/base/types.h"
#include "stack/transport/diagnostics/qp_diagnostics.h"
#include "stack/transport/message/inbound_message.h"
#include "stack/transport/message/packet_builder.h"
#include "stack/transport/message/poll_context.h"
#include "stack/transport/rc/responder_resources.h"
#include "stack/verbs/queue_pair.h"
#include "stack/wire/expected_headers.h"
#include "stack/wire/roce_packet.h"

namespace pollux::transport {

// Acknowledgements are coalesced: one a poll, however many packets asked; and one for many
// messages that did not ask, so that their requester need not probe. READ responses are
// copied when they are sent, and go before any acknowledgement of what came after their READ.
// Atomics are executed when they come, once; their result is kept for duplicates. Owned by one
// worker. Source: IB specification 9.7.5, 9.9.
class RcResponder {
 public:
  // Messages that do not ask are acknowledged when so many are not yet, or so long after the first
  // of them: well before a requester probes (RetransmissionTimeout::kMinProbeNs).
  static constexpr uint32_t kUnaskedMessages = 16;
  static constexpr uint64_t kUnaskedNs = 100'000;
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

  RcResponder(verbs::QueuePair* qp, QpDiagnostics* diagnostics)
      : qp_(qp), diagnostics_(diagnostics), message_(qp, diagnostics), builder_(diagnostics) {}

  // Takes the attributes of the transition to RTR. Allocates room for the READs and
  // atomics to remember.
  void Start();
  void Stop();
  // Takes the attributes of a change in SQD: the path, and how many READs and atomics to remember.
  void OnModified();

  // A request whose state, address and ICRC have been checked.
  void OnRequest(const wire::RocePacket& packet, PollContext& context);

  // Whether `psn` is the next one, and no NAK, RNR wait or fatal error is pending.
  bool IsNextRequest(Psn psn) const {
    const bool undisturbed = !fatal_ && nak_ == 0 && !sequence_nak_sent_ && !waiting_after_rnr_;
    return (psn == expected_psn_ || Planted(Fault::kShortOutOfTurn)) && undisturbed &&
           communication_established_;
  }
  // Whether there is a receive for a SEND Only; true for a WRITE Only.
  bool HasPlace(wire::Opcode opcode,
                const wire::ExpectedHeaders::SinglePacketMessage& message) const {
    return opcode != wire::Opcode::kRcSendOnly || message_.HasReceive(message.ext_bytes);
  }
  // Executes such a packet, a SEND Only or RDMA WRITE Only with a place, whose ICRC is right.
  // Returns false, without any effect, if OnRequest() has to handle it.
  bool TryExecute(wire::Opcode opcode, const wire::ExpectedHeaders::SinglePacketMessage& message,
                  PollContext& context);

  // Sends up to `*budget` responses to READs and atomics and takes them off it, and the
  // acknowledgement that is owed behind them. True when more could be sent at once.
  bool Transmit(PollContext& context, int* budget);

  // Sends the acknowledgement or NAK that is owed, in the poll that made it. One that is to come
  // behind responses, or ends the connection, stays for Transmit(), for which the queue pair is
  // active already. False when there was no room or no buffer: to be called again.
  bool Acknowledge(PollContext& context);

  // Before the queue pair goes: sends what acknowledgement it owes, and says kLastAcks times in all
  // what it has completed, where there is room in the egress for so many. Nobody answers the
  // requester afterwards: were that lost, it would count as failed what was done. Nothing when a
  // READ or atomic came last, whose response has said it.
  static constexpr int kLastAcks = 3;
  void AcknowledgeAtLast(PollContext& context);

  uint64_t deadline_ns() const { return unasked_until_ns_; }
  void OnDeadline(PollContext& context);

  // As Endpoint's.
  void Prefetch() const { PrefetchLines(this, &resources_); }
  // What the queue pair's turns to send look at, whether anything is owed or not.
  void PrefetchOwed() const {
    __builtin_prefetch(this);
    __builtin_prefetch(&resources_);
  }

 private:
  void OnOutOfSequence(Psn psn, PollContext& context);
  void OnDuplicate(const wire::RocePacket& packet, PollContext& context);
  void OnMessage(const wire::RocePacket& packet, PollContext& context);
  void OnRead(const wire::RocePacket& packet, PollContext& context);
  void OnAtomic(const wire::RocePacket& packet, PollContext& context);
  // Room for what has come, which is remembered and answered; null, and the end, when the peer asks
  // for more at once than was agreed.
  ResponderResource* NewResource(uint32_t packets, PollContext& context);
  void CountMessage();
  void Executed(bool last, bool ack_request, PollContext& context);
  void AskForAck(PollContext& context);
  // A message that does not ask is complete.
  void OnUnasked(PollContext& context);
  // Everything executed so far is acknowledged by what is about to be sent.
  void Acknowledged();
  void NotReady(PollContext& context);
  void Fatal(uint8_t syndrome, Psn psn, ibv_event_type event);
  memory::AccessResult CheckRemote(uint32_t rkey, uint64_t address, uint32_t bytes, int needed,
                                   uint8_t** at) const;

  bool SendReadResponse(ResponderResource& read, ResponseRange& response, PollContext& context);
  bool SendAtomicAck(ResponderResource& atomic, ResponseRange& response, PollContext& context);
  // Packet number `packet` of the response has been handed on.
  void Sent(ResponderResource& resource, uint32_t packet, PollContext& context);
  bool SendOwed(PollContext& context);
  bool SendAeth(uint8_t syndrome, Psn psn, uint32_t msn, PollContext& context);

  // First what the requester's turns look at too: with many active queue pairs it is cold.
  uint64_t unasked_until_ns_ = kNever;  // then messages that did not ask are acknowledged
  uint32_t unasked_ = 0;                // as many
  bool ack_pending_ = false;
  uint8_t nak_ = 0;     // syndrome, 0 for none
  bool fatal_ = false;  // the queue pair enters ERR once all that is sent
  // READs or atomics came last. No acknowledgement names them, since a requester could take it for
  // their response (rxe does, and completes them without their data), but what came before.
  bool responses_last_ = false;
  Psn expected_psn_;
  uint32_t msn_ = 0;  // 24 bits
  verbs::QueuePair* qp_;
  QpDiagnostics* diagnostics_;
  Psn nak_psn_;
  ibv_event_type fatal_event_ = IBV_EVENT_QP_FATAL;
  Psn message_end_;                 // of responses_last_: behind that message,
  uint32_t message_msn_ = 0;        // and its number
  Psn nak_cause_psn_;               // beyond the gap: what its last NAK answered
  bool sequence_nak_sent_ = false;  // for the gap at expected_psn_
  bool waiting_after_rnr_ = false;  // for expected_psn_ to come again
  bool communication_established_ = false;
  InboundMessage message_;
  PacketBuilder builder_;
  // Responses to be sent, before the NAK or else the ACK. The last: most of it is seldom looked at.
  alignas(kCacheLineBytes) ResponderResources resources_;
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_RC_RC_RESPONDER_H_
