// Durations in text form: "20us", "1.5ms", "2s".
#ifndef POLLUX_TOOLS_COMMON_DURATION_H_
#define POLLUX_TOOLS_COMMON_DURATION_H_

#include <string>

#include "absl/status/statusor.h"

namespace pollux::tools {

// Returns nanoseconds. InvalidArgument unless the unit is ns, us, ms or s.
absl::StatusOr<double> ParseDurationNs(const std::string& text);
// Uses the largest unit in which the number is at least 1, with at most three decimals.
std::string FormatDurationNs(double ns);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_DURATION_H_
