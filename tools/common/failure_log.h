// What is written on standard error of a connection that fails: why, and its last events.
#ifndef POLLUX_TOOLS_COMMON_FAILURE_LOG_H_
#define POLLUX_TOOLS_COMMON_FAILURE_LOG_H_

#include <cstdint>
#include <string>

#include "cm/manager.h"
#include "tools/common/line_log.h"

namespace pollux::tools {

// "connection 192.0.2.2:4711 to 192.0.2.1:20049 failed: WHY; its last events:" and `log`.
std::string FailureText(const SocketAddress& local, const SocketAddress& peer,
                        const std::string& why, const std::string& log);

// A peer that breaks connection after connection fills no disk: so many are written down.
inline constexpr uint32_t kFailuresPerMinute = 16;

// Writes down from now on in `log`, which outlives `manager`, what fails of it, but nothing after
// an interrupt: what ends then is meant to. On the manager's core.
void LogFailures(cm::Manager* manager, engine::Worker* worker, LineLog* log);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_FAILURE_LOG_H_
