#include "rpcrdma/connection/report.h"

#include <string>

#include "stack/engine/telemetry.h"

namespace pollux::rpcrdma {

void OfferTopic() {
  engine::OfferTopic({"rpc", engine::Topic::Asks::kWorker,
                      "RPC-over-RDMA of a worker's clients and servers. Parameters: [WORKER]"});
}

bool Tell(const Question& question, const char* role, size_t connections, const Counters& counters,
          Report* report) {
  if (question.topic != "rpc") return false;
  const std::string prefix = std::string(role) + "/";
  report->Count(prefix + "connections", connections);
  counters.Visit([&](std::string_view name, uint64_t value) {
    report->Count(prefix + std::string(name), value);
  });
  return true;
}

}  // namespace pollux::rpcrdma
