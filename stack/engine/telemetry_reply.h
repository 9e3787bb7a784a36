// Converts statistics to replies of DPDK telemetry.
#ifndef POLLUX_STACK_ENGINE_TELEMETRY_REPLY_H_
#define POLLUX_STACK_ENGINE_TELEMETRY_REPLY_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "stack/base/stats.h"

struct rte_tel_data;

namespace pollux::engine {

// The prefix of every telemetry command of Pollux.
inline constexpr std::string_view kTelemetryPrefix = "/pollux/";

// For callbacks on DPDK's telemetry thread; returns 0, as these must. An error becomes a reply as
// well, with its message under "error" and its absl::StatusCode under "code"; a null reply would
// give no reason.
int ReplyToTelemetry(const absl::StatusOr<Stats>& stats, rte_tel_data* data);

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_TELEMETRY_REPLY_H_
