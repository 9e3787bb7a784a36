// The statistics of clients and servers for telemetry.
#ifndef POLLUX_RPCRDMA_CONNECTION_STATS_H_
#define POLLUX_RPCRDMA_CONNECTION_STATS_H_

#include <cstddef>

#include "rpcrdma/connection/counters.h"
#include "stack/base/stats.h"

namespace pollux::rpcrdma {

// Offers the topic "rpc": the counters of all clients and servers of a worker together, under
// "client/" and "server/". Thread-safe.
void OfferTopic();

// Adds the counters of one client or server and its number of connections. Returns false if the
// query has a different topic.
bool Collect(const StatsQuery& query, const char* role, size_t connections,
             const Counters& counters, Stats* stats);

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_CONNECTION_STATS_H_
