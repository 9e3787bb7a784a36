#include "rpcrdma/connection/stats.h"

#include <string>

#include "stack/engine/telemetry.h"

namespace pollux::rpcrdma {

void OfferTopic() {
  engine::OfferTopic({"rpc", engine::Topic::Asks::kWorker,
                      "RPC-over-RDMA of a worker's clients and servers. Parameters: [WORKER]"});
}

bool Collect(const StatsQuery& query, const char* role, size_t connections,
             const Counters& counters, Stats* stats) {
  if (query.topic != "rpc") return false;
  const std::string prefix = std::string(role) + "/";
  stats->Count(prefix + "connections", connections);
  counters.Visit([&](std::string_view name, uint64_t value) {
    stats->Count(prefix + std::string(name), value);
  });
  return true;
}

}  // namespace pollux::rpcrdma
