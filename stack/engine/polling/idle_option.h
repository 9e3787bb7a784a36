// The option for what a polling thread does when there is nothing to do. ProgressPolicy has the
// whole policy.
#ifndef POLLUX_STACK_ENGINE_POLLING_IDLE_OPTION_H_
#define POLLUX_STACK_ENGINE_POLLING_IDLE_OPTION_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace pollux::engine {

enum class Idle : uint8_t {
  kSpin,   // keeps polling: lowest latency, for a CPU of its own
  kYield,  // yields the CPU to threads that wait for it (sched_yield)
  kSleep,  // sleeps between polls: nearly no CPU use; packets wait up to SleepLength::kMaxIdleNs
};

// Parses "spin", "yield" or "sleep". Returns InvalidArgument for anything else.
absl::StatusOr<Idle> ParseIdle(std::string_view text);

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_POLLING_IDLE_OPTION_H_
