// How far something is, for whoever waits for it.
#ifndef POLLUX_TOOLS_COMMON_PROGRESS_H_
#define POLLUX_TOOLS_COMMON_PROGRESS_H_

#include <cstdint>
#include <functional>

namespace pollux::tools {

// Called from the waiting thread some times a second with the bytes (or calls) done and in all.
using Progress = std::function<void(uint64_t done, uint64_t total)>;

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_PROGRESS_H_
