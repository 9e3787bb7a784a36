// A log of refused mounts, for administrators whose clients cannot mount.
#ifndef POLLUX_NFS_MOUNT_MOUNT_REFUSALS_H_
#define POLLUX_NFS_MOUNT_MOUNT_REFUSALS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "stack/base/log_rate_limiter.h"
#include "stack/base/types.h"

namespace pollux::nfs {

// Writes one line for each client and path, and at most kLinesPerMinute, because any host may call,
// even with a forged address. Thread-safe.
class MountRefusals {
 public:
  // The number of clients and paths that are remembered, the last ones. One that is refused again
  // after this many others is logged again.
  static constexpr size_t kMaxRemembered = 256;
  static constexpr uint32_t kLinesPerMinute = 16;

  // Receives a line without its newline. Called on any thread; must not block. Null: nothing is
  // logged.
  using Log = std::function<void(const std::string& line)>;
  explicit MountRefusals(Log log) : log_(std::move(log)) {}

  // `why`: the reason as text.
  void Write(const Gid& client, std::string_view path, std::string_view why);

 private:
  const Log log_;
  std::mutex mutex_;
  std::deque<std::pair<Gid, std::string>> written_;
  LogRateLimiter budget_{kLinesPerMinute};
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_MOUNT_MOUNT_REFUSALS_H_
