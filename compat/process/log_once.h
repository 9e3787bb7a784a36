// Error messages for users of programs that can only report error numbers.
#ifndef POLLUX_COMPAT_PROCESS_LOG_ONCE_H_
#define POLLUX_COMPAT_PROCESS_LOG_ONCE_H_

#include <atomic>
#include <cstdio>
#include <string>

#include "absl/status/status.h"

namespace pollux::compat {

// Writes to standard error, the first time only, because programs repeat failing calls. There is
// one object for each kind of failure, with static lifetime. Thread-safe.
class LogOnce {
 public:
  void operator()(const absl::Status& status) {
    if (!IsFirst()) return;
    std::fprintf(stderr, "pollux: %s\n", std::string(status.message()).c_str());
  }
  // Whether the caller must write now; for callers that have no memory for a status.
  bool IsFirst() { return !told_.exchange(true, std::memory_order_relaxed); }

 private:
  std::atomic<bool> told_{false};
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_PROCESS_LOG_ONCE_H_
