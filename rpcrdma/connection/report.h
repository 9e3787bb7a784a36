// What clients and servers tell of themselves when they are asked (telemetry).
#ifndef POLLUX_RPCRDMA_CONNECTION_REPORT_H_
#define POLLUX_RPCRDMA_CONNECTION_REPORT_H_

#include <cstddef>

#include "rpcrdma/connection/counters.h"
#include "stack/base/report.h"

namespace pollux::rpcrdma {

// Offers the topic "rpc": the counters of all clients and servers of a worker together, under
// "client/" and "server/". Any thread.
void OfferTopic();

// Adds those of one, which has so many connections. False when the question is another.
bool Tell(const Question& question, const char* role, size_t connections, const Counters& counters,
          Report* report);

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_CONNECTION_REPORT_H_
