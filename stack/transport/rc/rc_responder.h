// The responder side of a reliable connection: executes and acknowledges requests, and sends the
// responses to READs and atomics. ATOMIC WRITEs and FLUSHes count as atomics here and in the files
// beside.
#ifndef POLLUX_STACK_TRANSPORT_RC_RC_RESPONDER_H_
#define POLLUX_STACK_TRANSPORT_RC_RC_RESPONDER_H_

#include <bit>
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

// Acknowledgements are coalesced: one per poll, however many packets request one. Messages that
// request none are acknowledged, too, many at once, so that their requester need not probe. READ
// responses are copied when they are sent, which is before any acknowledgement of what arrived
// after their READ. Atomics are executed once, when they arrive; their result is kept for
// duplicates. Owned by one worker. Source: IB specification 9.7.5, 9.9.
class RcResponder {
 public:
  // Messages that request no acknowledgement are acknowledged when this many have arrived, or this
  // long after the first of them: well before a requester probes
  // (RetransmissionTimeout::kMinProbeNs).
  static constexpr uint32_t kUnaskedMessages = 16;
  static constexpr uint64_t kUnaskedNs = 100'000;
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

  RcResponder(verbs::QueuePair* qp, QpDiagnostics* diagnostics)
      : qp_(qp), diagnostics_(diagnostics), message_(qp, diagnostics), builder_(diagnostics) {}

  // Applies the attributes of the transition to RTR. Allocates space for the READs and atomics that
  // must be remembered (to answer duplicates).
  void Start();
  void Stop();
  // Applies a change in SQD: the path, and the number of READs and atomics to remember.
  void OnModified();

  // Handles a request whose state, address and ICRC have been checked.
  void OnRequest(const wire::RocePacket& packet, PollContext& context);

  // Whether `psn` is the next one, and no NAK, RNR wait or fatal error is pending.
  bool IsNextRequest(Psn psn) const {
    return (psn == expected_psn_ || Planted(Fault::kShortOutOfTurn)) &&
           std::bit_cast<uint64_t>(conditions_) == 0;
  }
  // Executes a SEND Only or RDMA WRITE Only whose ICRC is right. `receive` is that of a SEND, from
  // QueuePair::RecvForPacket(), and null for a WRITE. Returns false, without any effect, if
  // OnRequest() has to handle it.
  bool TryExecute(const wire::ExpectedHeaders::SinglePacketMessage& message,
                  const verbs::PostedRecv* receive, PollContext& context);

  // Whether Transmit() may have anything to send.
  bool HasToSend() const {
    return ack_pending_ || conditions_.nak != 0 || conditions_.fatal || !resources_.empty();
  }
  // Sends up to `*budget` responses to READs and atomics, subtracts their number from `*budget`,
  // and then sends the acknowledgement that is owed after them. Returns true if more could be sent
  // at once.
  bool Transmit(PollContext& context, int* budget);

  // Sends the owed acknowledgement or NAK in the same poll in which its cause arrived. One that
  // must follow responses, or that ends the connection, is left to Transmit(), for which the queue
  // pair is already active. Returns false if there was no room or no buffer: call it again.
  bool Acknowledge(PollContext& context);

  // Call it before the queue pair is destroyed or its state changes to RESET or ERR. Sends the owed
  // acknowledgement or, if none is owed, the last one again: kLastAcks times in all if the egress
  // has room. The requester gets no replies afterwards: if the acknowledgement were lost, it would
  // report executed requests as failed. If the last request was a READ or atomic, its response
  // serves as the acknowledgement, and none is added.
  static constexpr int kLastAcks = 3;
  void AcknowledgeAtLast(PollContext& context);

  uint64_t deadline_ns() const { return unasked_until_ns_; }
  void OnDeadline(PollContext& context);

  // As Endpoint::Prefetch().
  void Prefetch() const { PrefetchLines(this, &resources_); }
  // Prefetches what each turn to send reads, whether or not anything is owed.
  void PrefetchOwed() const {
    __builtin_prefetch(this);
    __builtin_prefetch(&resources_);
  }

 private:
  void OnOutOfSequence(Psn psn, PollContext& context);
  void OnDuplicate(const wire::RocePacket& packet, PollContext& context);
  void OnMessage(const wire::RocePacket& packet, PollContext& context);
  void OnRead(const wire::RocePacket& packet, PollContext& context);
  // The 8 bytes that an atomic or an ATOMIC WRITE names; null after a NAK that ends the connection.
  uint64_t* RemoteWord(uint32_t rkey, uint64_t address, int access);
  void OnAtomic(const wire::RocePacket& packet, PollContext& context);
  void OnAtomicWrite(const wire::RocePacket& packet, PollContext& context);
  void OnFlush(const wire::RocePacket& packet, PollContext& context);
  // Adds a request that is to be remembered and answered. Returns null, and ends the connection, if
  // the peer has more requests outstanding than agreed.
  ResponderResource* NewResource(uint32_t packets, PollContext& context);
  void CountMessage();
  void Executed(bool last, bool ack_request, PollContext& context);
  void AskForAck(PollContext& context);
  // Called when a message that does not request an acknowledgement is complete.
  void OnUnasked(PollContext& context);
  // Called when the packet about to be sent acknowledges everything executed so far.
  void Acknowledged();
  void NotReady(PollContext& context);
  void Fatal(uint8_t syndrome, Psn psn, ibv_event_type event);
  memory::AccessResult CheckRemote(uint32_t rkey, uint64_t address, uint32_t bytes, int needed,
                                   uint8_t** at) const;

  bool SendReadResponse(ResponderResource& read, ResponseRange& response, PollContext& context);
  bool SendAtomicAck(ResponderResource& atomic, ResponseRange& response, PollContext& context);
  // Called after packet number `packet` of the response was passed to the egress.
  void Sent(ResponderResource& resource, uint32_t packet, PollContext& context);
  bool SendOwed(PollContext& context);
  bool SendAeth(uint8_t syndrome, Psn psn, uint32_t msn, PollContext& context);

  // The first members are those that are also read each time the requester sends: with many active
  // queue pairs they are not in the cache.
  uint64_t unasked_until_ns_ = kNever;  // when to acknowledge `unasked_` messages
  uint32_t unasked_ = 0;                // messages without a request, not yet acknowledged
  bool ack_pending_ = false;
  // The last requests were READs or atomics. Acknowledgements then have the PSN of the message
  // before them: with the PSN of a READ or atomic, a requester could take one for its response (rxe
  // does, and completes it without its data).
  bool responses_last_ = false;
  // If any of these is set, OnRequest() handles the request.
  struct Conditions {
    uint8_t nak = 0;                 // the syndrome of the NAK to be sent, 0 for none
    bool fatal = false;              // the queue pair enters ERR once everything is sent
    bool sequence_nak_sent = false;  // for the gap at expected_psn_
    bool waiting_after_rnr = false;  // for expected_psn_ to be sent again
    bool no_request_yet = true;
    uint8_t unused[3] = {};
  };
  Conditions conditions_;
  Psn expected_psn_;
  uint32_t msn_ = 0;  // 24 bits
  verbs::QueuePair* qp_;
  QpDiagnostics* diagnostics_;
  Psn nak_psn_;
  ibv_event_type fatal_event_ = IBV_EVENT_QP_FATAL;
  Psn message_end_;           // if responses_last_: the PSN after that message,
  uint32_t message_msn_ = 0;  // and its MSN
  Psn nak_cause_psn_;         // beyond the gap: the PSN that its last NAK answered
  InboundMessage message_;
  PacketBuilder builder_;
  // The responses to be sent, before the NAK or else the ACK. Last, because most of it is rarely
  // used.
  alignas(kCacheLineBytes) ResponderResources resources_;
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_RC_RC_RESPONDER_H_
