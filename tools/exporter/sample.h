// One look at all processes.
#ifndef POLLUX_TOOLS_EXPORTER_SAMPLE_H_
#define POLLUX_TOOLS_EXPORTER_SAMPLE_H_

#include <nlohmann/json.hpp>

#include "tools/stat/telemetry_client.h"

namespace pollux::tools {

// {"time_ms", "duration_ns", "processes": [as GatherStat() has them, without queue pairs, and with
// "connections" if these are wanted], "silent": [{"pid", "file_prefix", "reason"}]}; with "error"
// if nobody could be asked. A process that ends meanwhile is left out.
nlohmann::ordered_json TakeSample(const ProcessChoice& choice, bool connections);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_EXPORTER_SAMPLE_H_
