// Words for the user of a program whose own messages can only give a number.
#ifndef POLLUX_COMPAT_PROCESS_LOG_ONCE_H_
#define POLLUX_COMPAT_PROCESS_LOG_ONCE_H_

#include <atomic>
#include <cstdio>
#include <string>

#include "absl/status/status.h"

namespace pollux::compat {

// To standard error, the first time only: programs try again, and try on purpose. One for each kind
// of failure, with static lifetime. Any thread.
class LogOnce {
 public:
  void operator()(const absl::Status& status) {
    if (!IsFirst()) return;
    std::fprintf(stderr, "pollux: %s\n", std::string(status.message()).c_str());
  }
  // Whether to write now, for callers that have no memory for a status.
  bool IsFirst() { return !told_.exchange(true, std::memory_order_relaxed); }

 private:
  std::atomic<bool> told_{false};
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_PROCESS_LOG_ONCE_H_
