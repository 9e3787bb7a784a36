// What is written on standard error of a connection that fails: why, and its last events if asked.
#ifndef POLLUX_TOOLS_COMMON_FAILURE_LOG_H_
#define POLLUX_TOOLS_COMMON_FAILURE_LOG_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "cm/manager.h"
#include "stack/base/log_rate_limiter.h"
#include "tools/common/line_log.h"

namespace pollux::tools {

// "connection 192.0.2.2:4711 to 192.0.2.1:20049 failed: WHY", and `events` below it if there are
// any.
std::string FailureText(const SocketAddress& local, const SocketAddress& peer,
                        const std::string& why, const std::string& events);

// A peer that breaks connection after connection fills no disk: so many are written down.
inline constexpr uint32_t kFailuresPerMinute = 16;

// Writes down what fails of a manager, but nothing after an interrupt: what ends then is meant to.
// On the manager's core.
class FailureLog {
 public:
  // `log` outlives `manager`, and so does this. `with_events`: the flight recorder's, too.
  FailureLog(cm::Manager* manager, engine::Worker* worker, LineLog* log, bool with_events);
  FailureLog(const FailureLog&) = delete;
  FailureLog& operator=(const FailureLog&) = delete;

  // Whether a failed connection to this peer has been written down since the last time that this
  // was asked of it: that it is gone need not be said again.
  bool TakeWritten(const SocketAddress& peer);

 private:
  static constexpr size_t kMaxWritten = 64;  // that nobody has asked for

  void Write(const cm::Id& id, const std::string& why);

  cm::Manager* manager_;
  engine::Worker* worker_;
  LineLog* log_;
  bool with_events_;
  LogRateLimiter budget_{kFailuresPerMinute};
  std::deque<SocketAddress> written_;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_FAILURE_LOG_H_
