// Times as people write them: "20us", "1.5ms", "2s".
#ifndef POLLUX_TOOLS_COMMON_DURATION_H_
#define POLLUX_TOOLS_COMMON_DURATION_H_

#include <string>

#include "absl/status/statusor.h"

namespace pollux::tools {

// In nanoseconds. InvalidArgument without one of the units ns, us, ms and s.
absl::StatusOr<double> ParseDurationNs(const std::string& text);
// In the largest unit that makes it at least 1, with three digits behind the point at most.
std::string FormatDurationNs(double ns);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_DURATION_H_
