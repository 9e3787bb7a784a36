// Reports as answers of DPDK telemetry.
#ifndef POLLUX_STACK_ENGINE_TELEMETRY_ANSWER_H_
#define POLLUX_STACK_ENGINE_TELEMETRY_ANSWER_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "stack/base/stats.h"

struct rte_tel_data;

namespace pollux::engine {

// Of every telemetry command of Pollux.
inline constexpr std::string_view kTelemetryPrefix = "/pollux/";

// For DPDK's telemetry thread: 0, as its callbacks return. An error is an answer too, its words
// under "error" and its absl::StatusCode under "code": null would say nothing.
int AnswerTelemetry(const absl::StatusOr<Stats>& report, rte_tel_data* data);

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_TELEMETRY_ANSWER_H_
