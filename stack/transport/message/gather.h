// Copies the payload of a work request into a packet.
#ifndef POLLUX_STACK_TRANSPORT_MESSAGE_GATHER_H_
#define POLLUX_STACK_TRANSPORT_MESSAGE_GATHER_H_

#include <cstdint>

#include "stack/transport/message/packet_builder.h"
#include "stack/verbs/queue_pair.h"

namespace pollux::transport {

// Copies `bytes` bytes at `offset` of the message of work request `index` into the packet under
// construction. Returns false if a key, its domain or its bounds do not allow it.
bool Gather(verbs::QueuePair& qp, uint32_t index, uint32_t offset, uint32_t bytes,
            PacketBuilder& builder);

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_MESSAGE_GATHER_H_
