// A sample of the statistics of all processes.
#ifndef POLLUX_TOOLS_EXPORTER_SAMPLE_H_
#define POLLUX_TOOLS_EXPORTER_SAMPLE_H_

#include <nlohmann/json.hpp>

#include "tools/stat/telemetry_client.h"

namespace pollux::tools {

// Returns {"time_ms", "duration_ns", "processes": [as from GatherStat(), without queue pairs, and
// with "connections" if requested], "silent": [{"pid", "file_prefix", "reason"}]}; with "error" if
// no process could be queried. A process that ends meanwhile is left out, and so are the
// connections of a process if they are not read by choice.deadline.
nlohmann::ordered_json TakeSample(const ProcessChoice& choice, bool connections);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_EXPORTER_SAMPLE_H_
