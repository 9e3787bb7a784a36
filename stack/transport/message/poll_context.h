// What a worker gives the transport with every call: time, the wire, counters, randomness.
#ifndef POLLUX_STACK_TRANSPORT_MESSAGE_POLL_CONTEXT_H_
#define POLLUX_STACK_TRANSPORT_MESSAGE_POLL_CONTEXT_H_

#include <cstdint>

#include "stack/base/random.h"
#include "stack/transport/diagnostics/counters.h"
#include "stack/transport/message/egress.h"
#include "stack/verbs/address_handle.h"

namespace pollux::transport {

struct PollContext;

// Takes frames whose next hop is not known yet, and doubts of one that is. Called off the fast
// path.
class Resolver {
 public:
  virtual ~Resolver() = default;
  // Queues a frame that is finished but for its destination MAC until `link` is resolved, within
  // bounds; takes over `frame`.
  virtual void SendWhenResolved(const verbs::LinkAddress* link, rte_mbuf* frame,
                                PollContext& context) = 0;
  // Nothing that was sent by `link` has been answered for a local ACK timeout.
  virtual void Suspect(const verbs::LinkAddress* link, PollContext& context) = 0;
};

struct PollContext {
  uint64_t now_ns;
  Egress& egress;
  Counters& counters;
  Random& random;
  Resolver* resolver = nullptr;  // of the same port; without one, such frames are dropped
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_MESSAGE_POLL_CONTEXT_H_
