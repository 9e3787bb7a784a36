// The log of mounts that are refused: an administrator whose client cannot mount looks there first.
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

// A line for each client and path, once; so many a minute, since anybody may ask, under any
// address. Any thread.
class MountRefusals {
 public:
  // Clients and paths, whichever were refused last: one that comes back after so many others is
  // logged again.
  static constexpr size_t kMaxRemembered = 256;
  static constexpr uint32_t kLinesPerMinute = 16;

  // Takes a line without its end. Any thread; must not wait. None: nothing is logged.
  using Log = std::function<void(const std::string& line)>;
  explicit MountRefusals(Log log) : log_(std::move(log)) {}

  // `why`: in words.
  void Write(const Gid& client, std::string_view path, std::string_view why);

 private:
  const Log log_;
  std::mutex mutex_;
  std::deque<std::pair<Gid, std::string>> written_;
  LogRateLimiter budget_{kLinesPerMinute};
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_MOUNT_MOUNT_REFUSALS_H_
