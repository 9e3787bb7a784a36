// What is written on standard error of a connection that fails: why, and its last events.
#ifndef POLLUX_TOOLS_FAILURE_LOG_H_
#define POLLUX_TOOLS_FAILURE_LOG_H_

#include <cstdint>
#include <string>

#include "cm/manager.h"

namespace pollux::tools {

// "connection 192.0.2.2:4711 to 192.0.2.1:20049 failed: WHY; its last events:" and `log`.
std::string FailureText(const cm::Endpoint& local, const cm::Endpoint& peer, const std::string& why,
                        const std::string& log);

// A peer that breaks connection after connection fills no disk: so many a minute, and a line with
// the number of those left out.
class FailureBudget {
 public:
  static constexpr uint32_t kPerMinute = 16;

  // Whether one at this time may be written.
  bool Take(uint64_t now_ns);
  // Left out since the last call.
  uint64_t TakeLeftOut();

 private:
  static constexpr uint64_t kMinuteNs = 60'000'000'000;
  uint64_t minute_ns_ = 0;
  uint32_t taken_ = 0;
  uint64_t left_out_ = 0;
};

// Writes down from now on what fails of `manager`, but nothing after an interrupt: what ends then
// is meant to. On the manager's core; `manager` keeps it.
void LogFailures(cm::Manager* manager, engine::Worker* worker);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_FAILURE_LOG_H_
