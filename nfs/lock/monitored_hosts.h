// The hosts that hold locks, and the number of restarts, on stable storage: after a restart the
// server knows which hosts to notify. Source: The Open Group's XNFS (C702) chapter 11.
#ifndef POLLUX_NFS_LOCK_MONITORED_HOSTS_H_
#define POLLUX_NFS_LOCK_MONITORED_HOSTS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stack/base/fd.h"
#include "stack/base/types.h"

namespace pollux::nfs {

// Thread-safe; for threads that may wait for the file system. The file is text: "state N", then one
// line "host ADDRESS" per host. A file with the same name and .lock shows which server uses it.
class MonitoredHosts {
 public:
  static constexpr size_t kMaxHosts = 16'384;
  // When this many hosts have been added, those without locks are removed; the next removal is at
  // twice the number of hosts that remained.
  static constexpr size_t kCrowded = 256;

  // Returns the hosts that hold locks now.
  using Holders = std::function<std::set<Gid>()>;

  // Opens or creates the file and counts a start. AlreadyExists if another server uses it;
  // FailedPrecondition, with a remedy, if it has other contents; otherwise the error of the file
  // system.
  static absl::StatusOr<std::unique_ptr<MonitoredHosts>> Open(std::string path);

  // The NSM state: odd, and different after each start.
  uint32_t state() const { return state_; }
  // The hosts that held locks before this start.
  const std::set<Gid>& before() const { return before_; }

  // Adds a host; it is on stable storage when this returns. If there are more than kCrowded, added
  // hosts that are not in holders() are removed (without `holders`: all of them). ResourceExhausted
  // at kMaxHosts; otherwise the error of the file system. After an error the host is not added.
  absl::Status Add(const Gid& host, const Holders& holders = nullptr);
  // Marks a host of before() as notified, or as unreachable for good. It stays listed as long as it
  // may reclaim its locks.
  absl::Status Told(const Gid& host);
  // Sets the time until which hosts of before() may reclaim; without it there is no limit.
  void KeepToldUntil(std::chrono::steady_clock::time_point end);
  // Removes added hosts that are not in `holders`.
  absl::Status KeepOnly(const std::set<Gid>& holders);

 private:
  explicit MonitoredHosts(std::string path) : path_(std::move(path)) {}
  absl::Status TakeLock();
  absl::Status Read();
  std::set<Gid> All() const;
  // Whether notified hosts may still reclaim their locks.
  bool MayAsk() const { return std::chrono::steady_clock::now() < told_end_; }
  // Removes added hosts that are not in `holders`.
  void Forget(const std::set<Gid>& holders);
  // Replaces the file atomically.
  absl::Status Write() const;

  const std::string path_;
  Fd lock_;  // held until this process ends, in whatever way
  uint32_t state_ = 0;
  std::set<Gid> before_;  // constant after Open()
  std::mutex mutex_;
  // Parts of before_.
  std::set<Gid> untold_;
  std::set<Gid> told_;
  std::chrono::steady_clock::time_point told_end_ = std::chrono::steady_clock::time_point::max();
  std::set<Gid> added_;
  size_t crowded_ = kCrowded;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_LOCK_MONITORED_HOSTS_H_
