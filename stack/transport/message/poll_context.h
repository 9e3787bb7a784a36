// What a worker passes to the transport with every call: time, the wire, counters, randomness.
#ifndef POLLUX_STACK_TRANSPORT_MESSAGE_POLL_CONTEXT_H_
#define POLLUX_STACK_TRANSPORT_MESSAGE_POLL_CONTEXT_H_

#include <cstdint>

#include "stack/base/random.h"
#include "stack/transport/diagnostics/counters.h"
#include "stack/transport/message/egress.h"
#include "stack/verbs/address_handle.h"

namespace pollux::transport {

struct PollContext;

// Queues frames whose next hop is unknown, and checks next hops that do not answer. Not called on
// the fast path.
class Resolver {
 public:
  virtual ~Resolver() = default;
  // Queues a frame that is complete except for its destination MAC until `link` is resolved, within
  // limits; takes over `frame`.
  virtual void SendWhenResolved(const verbs::LinkAddress* link, rte_mbuf* frame,
                                PollContext& context) = 0;
  // Called if nothing that was sent over `link` has been answered for a local ACK timeout.
  virtual void Suspect(const verbs::LinkAddress* link, PollContext& context) = 0;
};

struct PollContext {
  uint64_t now_ns;
  Egress& egress;
  Counters& counters;
  Random& random;
  Resolver* resolver = nullptr;  // of the same port; null: such frames are dropped
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_MESSAGE_POLL_CONTEXT_H_
