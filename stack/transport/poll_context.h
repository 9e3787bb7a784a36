// What a worker gives the transport with every call: time, the wire, counters, randomness.
#ifndef POLLUX_STACK_TRANSPORT_POLL_CONTEXT_H_
#define POLLUX_STACK_TRANSPORT_POLL_CONTEXT_H_

#include <cstdint>

#include "stack/base/random.h"
#include "stack/transport/counters.h"
#include "stack/transport/egress.h"

namespace pollux::transport {

struct PollContext {
  uint64_t now_ns;
  Egress& egress;
  Counters& counters;
  Random& random;
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_POLL_CONTEXT_H_
