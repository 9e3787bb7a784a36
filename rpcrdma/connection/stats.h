// What clients and servers tell of themselves when they are asked (telemetry).
#ifndef POLLUX_RPCRDMA_CONNECTION_STATS_H_
#define POLLUX_RPCRDMA_CONNECTION_STATS_H_

#include <cstddef>

#include "rpcrdma/connection/counters.h"
#include "stack/base/stats.h"

namespace pollux::rpcrdma {

// Offers the topic "rpc": the counters of all clients and servers of a worker together, under
// "client/" and "server/". Any thread.
void OfferTopic();

// Adds those of one, which has so many connections. False when the question is another.
bool Collect(const StatsQuery& query, const char* role, size_t connections,
             const Counters& counters, Stats* stats);

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_CONNECTION_STATS_H_
