// Statistics as replies of DPDK telemetry.
#ifndef POLLUX_STACK_ENGINE_TELEMETRY_REPLY_H_
#define POLLUX_STACK_ENGINE_TELEMETRY_REPLY_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "stack/base/stats.h"

struct rte_tel_data;

namespace pollux::engine {

// Of every telemetry command of Pollux.
inline constexpr std::string_view kTelemetryPrefix = "/pollux/";

// For DPDK's telemetry thread: 0, as its callbacks return. An error is a reply too, its words
// under "error" and its absl::StatusCode under "code": null would say nothing.
int ReplyToTelemetry(const absl::StatusOr<Stats>& stats, rte_tel_data* data);

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_TELEMETRY_REPLY_H_
