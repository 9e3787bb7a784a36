// Sends the packets of a SEND or WRITE: the common part of the requesters of RC and UC.
#ifndef POLLUX_STACK_TRANSPORT_MESSAGE_OUTBOUND_MESSAGE_H_
#define POLLUX_STACK_TRANSPORT_MESSAGE_OUTBOUND_MESSAGE_H_

#include <cstdint>

#include "stack/base/types.h"
#include "stack/transport/message/packet_builder.h"
#include "stack/transport/message/poll_context.h"
#include "stack/verbs/queue_pair.h"

namespace pollux::transport {

enum class BuildResult : uint8_t {
  kBuilt,
  kNoBuffer,    // try again later
  kLocalFault,  // the keys of the request's own memory do not allow it: IBV_WC_LOC_PROT_ERR
};

// Sends packet number `packet` of the SEND or WRITE at `index` of the send queue.
BuildResult SendMessagePacket(verbs::QueuePair& qp, uint32_t index, uint32_t packet, Psn psn,
                              bool ack_request, PacketBuilder& builder, PollContext& context);

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_MESSAGE_OUTBOUND_MESSAGE_H_
