// Messages on standard error about failed connections: the reason, and on request the last events.
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

// A limit on logged failures, so that a peer that breaks one connection after another cannot fill
// the disk.
inline constexpr uint32_t kFailuresPerMinute = 16;

// Logs the failed connections of a manager. Logs nothing after an interrupt, because connections
// are then ended on purpose. Used on the manager's core.
class FailureLog {
 public:
  // `log` and this object must outlive `manager`. `with_events`: also logs the events of the flight
  // recorder.
  FailureLog(cm::Manager* manager, engine::Worker* worker, LineLog* log, bool with_events);
  FailureLog(const FailureLog&) = delete;
  FailureLog& operator=(const FailureLog&) = delete;

  // Whether a failed connection to this peer was logged since the last such call for this peer. If
  // so, the connection's end need not be logged, too.
  bool TakeWritten(const SocketAddress& peer);

 private:
  static constexpr size_t kMaxWritten = 64;  // entries not taken by TakeWritten()

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
