// The hosts that hold locks, on stable storage, so that a server that starts again knows whom to
// tell, and how often it has started. Source: The Open Group's XNFS (C702) chapter 11.
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

// Any thread that may wait for the file's file system. A file of text: "state N", then a line "host
// ADDRESS" for each; one with .lock behind its name says whose it is.
class MonitoredHosts {
 public:
  static constexpr size_t kMaxHosts = 16'384;
  // So many that were added before those that hold nothing are forgotten; after that, twice as many
  // as were left.
  static constexpr size_t kCrowded = 256;

  // Who holds something now.
  using Holders = std::function<std::set<Gid>()>;

  // Takes the file, or begins one, and counts a start. AlreadyExists when another server has it;
  // FailedPrecondition, with what to do, when it is something else; else what the file system says.
  static absl::StatusOr<std::unique_ptr<MonitoredHosts>> Open(std::string path);

  // NSM's: odd, and another one at each start.
  uint32_t state() const { return state_; }
  // Who held locks before this start.
  const std::set<Gid>& before() const { return before_; }

  // On stable storage when it returns. Where there are many, those that were added and are not
  // among `holders` (none: nobody) are forgotten for it. ResourceExhausted when there are
  // kMaxHosts; else what the file system says, and it is not added.
  absl::Status Add(const Gid& host, const Holders& holders = nullptr);
  // One of before() knows of the start, or will never. It stays on the list for as long as it may
  // ask for what it held.
  absl::Status Told(const Gid& host);
  // How long those of before() may: without end if nothing is said.
  void KeepToldUntil(std::chrono::steady_clock::time_point end);
  // Forgets who was added and is not among these.
  absl::Status KeepOnly(const std::set<Gid>& holders);

 private:
  explicit MonitoredHosts(std::string path) : path_(std::move(path)) {}
  absl::Status TakeLock();
  absl::Status Read();
  std::set<Gid> All() const;
  // Those that were told.
  bool MayAsk() const { return std::chrono::steady_clock::now() < told_end_; }
  // Of those that were added.
  void Forget(const std::set<Gid>& holders);
  // Whole or not at all.
  absl::Status Write() const;

  const std::string path_;
  Fd lock_;  // until this process ends, however it does
  uint32_t state_ = 0;
  std::set<Gid> before_;  // constant once open
  std::mutex mutex_;
  // Of before_.
  std::set<Gid> untold_;
  std::set<Gid> told_;
  std::chrono::steady_clock::time_point told_end_ = std::chrono::steady_clock::time_point::max();
  std::set<Gid> added_;
  size_t crowded_ = kCrowded;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_LOCK_MONITORED_HOSTS_H_
