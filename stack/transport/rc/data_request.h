// READs, atomics, ATOMIC WRITEs and FLUSHes on the requester's side: sends the request and places
// the response.
#ifndef POLLUX_STACK_TRANSPORT_RC_DATA_REQUEST_H_
#define POLLUX_STACK_TRANSPORT_RC_DATA_REQUEST_H_

#include <infiniband/verbs.h>

#include <cstdint>

#include "stack/transport/message/packet_builder.h"
#include "stack/transport/message/poll_context.h"
#include "stack/verbs/queue_pair.h"
#include "stack/wire/roce_packet.h"

namespace pollux::transport {

// Requests the response packets [begin, end) of a READ, or sends an atomic, an ATOMIC WRITE or a
// FLUSH (begin 0, end 1).
// Returns false if there was no mbuf.
bool SendDataRequest(const verbs::QueuePair& qp, const verbs::SendWqe& wqe, uint32_t begin,
                     uint32_t end, PacketBuilder& builder, PollContext& context);

// Whether a response is of the kind that the work request expects.
bool IsResponseTo(const wire::RocePacket& response, const verbs::SendWqe& wqe);

// Copies response packet number `packet` of the work request at `index` to its place. Returns
// IBV_WC_BAD_RESP_ERR if its length is wrong, IBV_WC_LOC_PROT_ERR if the keys of the request's own
// memory do not allow it.
ibv_wc_status PlaceResponse(const wire::RocePacket& response, verbs::QueuePair& qp, uint32_t index,
                            uint32_t packet);

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_RC_DATA_REQUEST_H_
