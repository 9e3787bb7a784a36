// What a running process tells of itself, gathered from its telemetry.
#ifndef POLLUX_TOOLS_STAT_PROCESS_STAT_H_
#define POLLUX_TOOLS_STAT_PROCESS_STAT_H_

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "tools/stat/telemetry_client.h"

namespace pollux::tools {

// {"pid", "file_prefix", "workers": [{"worker", "core": {...}, "memory": {...}, "cm": {...},
// "rpc": {...}, "nfs": {...}, "ports": [{...}], "queue_pairs": [{...}]}]}; without "cm", "rpc" or
// "nfs" where there is none, and "queue_pairs" empty unless `queue_pairs`: each is a question. What
// ends meanwhile is left out. Errors as TelemetryClient::Ask().
absl::StatusOr<nlohmann::ordered_json> GatherStat(TelemetryClient& process,
                                                  bool queue_pairs = true);

// {"pid", "file_prefix", "connections": [{"worker", what CM tells ..., "queue_pair": {...}}]}, with
// "recorder": [lines] of each when `recorders`.
absl::StatusOr<nlohmann::ordered_json> GatherConnections(TelemetryClient& process, bool recorders);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_STAT_PROCESS_STAT_H_
