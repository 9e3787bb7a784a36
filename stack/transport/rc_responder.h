// The responder side of a reliable connection: executes requests, acknowledges, answers READs and
// atomics.
#ifndef POLLUX_STACK_TRANSPORT_RC_RESPONDER_H_
#define POLLUX_STACK_TRANSPORT_RC_RESPONDER_H_

#include <cstdint>
#include <memory>

#include "stack/base/types.h"
#include "stack/transport/inbound_message.h"
#include "stack/transport/packet_builder.h"
#include "stack/transport/poll_context.h"
#include "stack/verbs/queue_pair.h"
#include "stack/wire/roce_packet.h"

namespace pollux::transport {

// Acknowledgements are coalesced: one a Transmit(), however many packets asked. READ responses are
// copied when they are sent, and go before any acknowledgement of what came after their READ.
// Atomics are executed when they come, once; their result is kept for duplicates. Owned by one
// worker. Source: IB specification 9.7.5, 9.9.
class RcResponder {
 public:
  explicit RcResponder(verbs::QueuePair* qp) : qp_(qp), message_(qp) {}

  // Takes the attributes of the transition to RTR. Allocates room for the READs and
  // atomics to remember.
  void Start();
  void Stop();

  // A request whose state, address and ICRC have been checked.
  void OnRequest(const wire::RocePacket& packet, PollContext& context);

  // Sends up to `*budget` packets and takes them off it. True when more could be sent at once.
  bool Transmit(PollContext& context, int* budget);

 private:
  // A READ or atomic as it was first asked: remembered, so that a duplicate can be answered again.
  struct Resource {
    Psn first_psn;
    uint32_t packets = 0;
    wire::Reth reth;  // of a READ
    bool atomic = false;
    uint64_t original = 0;  // what an atomic found
    // Packets still to be sent, of the request that is being answered: [next, end) since `begin`.
    uint32_t begin = 0;
    uint32_t next = 0;
    uint32_t end = 0;
    bool answered = false;  // once in full; what is being sent is a repetition
    bool repeated = false;  // a duplicate of the request came
    bool active() const { return next != end; }
  };

  void OnOutOfSequence(Psn psn, PollContext& context);
  void OnDuplicate(const wire::RocePacket& packet, PollContext& context);
  void OnMessage(const wire::RocePacket& packet, PollContext& context);
  void OnRead(const wire::RocePacket& packet);
  void OnAtomic(const wire::RocePacket& packet);
  // Room for what has come, which is remembered and answered; null, and the end, when the peer asks
  // for more at once than was agreed.
  Resource* NewResource(uint32_t packets);
  void Executed(const wire::RocePacket& packet, bool last);
  void NotReady(PollContext& context);
  void Fatal(uint8_t syndrome, Psn psn, ibv_event_type event);
  memory::AccessResult CheckRemote(uint32_t rkey, uint64_t address, uint32_t bytes, int needed,
                                   uint8_t** at) const;

  bool SendReadResponse(Resource& read, PollContext& context);
  bool SendAtomicAck(Resource& atomic, PollContext& context);
  bool SendAeth(uint8_t syndrome, Psn psn, PollContext& context);
  Resource* NextActive();
  Resource& resource(uint32_t index) { return resources_[index % capacity_]; }

  verbs::QueuePair* qp_;
  PacketBuilder builder_;
  Psn expected_psn_;
  uint32_t msn_ = 0;  // 24 bits

  InboundMessage message_;

  bool sequence_nak_sent_ = false;  // for the gap at expected_psn_
  Psn newest_psn_;                  // beyond the gap, since its last NAK
  bool waiting_after_rnr_ = false;  // for expected_psn_ to come again
  bool communication_established_ = false;

  // Answers to be sent, in this order: those to READs and atomics, then the NAK or else the ACK.
  uint32_t capacity_ = 0;
  uint32_t head_ = 0, tail_ = 0;  // remembered
  std::unique_ptr<Resource[]> resources_;
  bool ack_pending_ = false;
  uint8_t nak_ = 0;  // syndrome, 0 for none
  Psn nak_psn_;
  bool fatal_ = false;  // the queue pair enters ERR once all that is sent
  ibv_event_type fatal_event_ = IBV_EVENT_QP_FATAL;
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_RC_RESPONDER_H_
