// The progress of a transfer or of a series of calls.
#ifndef POLLUX_TOOLS_COMMON_PROGRESS_H_
#define POLLUX_TOOLS_COMMON_PROGRESS_H_

#include <cstdint>
#include <functional>

namespace pollux::tools {

// Called on the waiting thread several times per second with the bytes (or calls) done so far and
// in total.
using Progress = std::function<void(uint64_t done, uint64_t total)>;

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_PROGRESS_H_
