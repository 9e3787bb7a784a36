// Collects the statistics of a running process through its telemetry.
#ifndef POLLUX_TOOLS_STAT_PROCESS_STAT_H_
#define POLLUX_TOOLS_STAT_PROCESS_STAT_H_

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "tools/stat/telemetry_client.h"

namespace pollux::tools {

// {"pid", "file_prefix", "workers": [{"worker", "core": {...}, "memory": {...}, "cm": {...}, "rpc":
// {...}, "nfs": {...}, "ports": [{...}], "queue_pairs": [{...}]}]}; without "cm", "rpc" or "nfs" if
// there is none. "queue_pairs" is empty unless `queue_pairs` is true, because each queue pair takes
// a request. Objects that are destroyed meanwhile are left out. Errors as TelemetryClient::Ask().
absl::StatusOr<nlohmann::ordered_json> GatherStat(TelemetryClient& process,
                                                  bool queue_pairs = true);

// {"pid", "file_prefix", "connections": [{"worker", CM's fields ..., "queue_pair": {...}}]}, with
// "recorder": [lines] in each connection if `recorders`.
absl::StatusOr<nlohmann::ordered_json> GatherConnections(TelemetryClient& process, bool recorders);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_STAT_PROCESS_STAT_H_
