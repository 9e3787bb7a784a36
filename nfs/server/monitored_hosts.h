// The hosts that hold locks, on stable storage, so that a server that starts again knows whom to
// tell, and how often it has started. Source: The Open Group's XNFS (C702) chapter 11.
#ifndef POLLUX_NFS_SERVER_MONITORED_HOSTS_H_
#define POLLUX_NFS_SERVER_MONITORED_HOSTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nfs/server/fd.h"
#include "stack/base/types.h"

namespace pollux::nfs {

// Any thread that may wait for the file's file system. A file of text: "state N", then a line "host
// ADDRESS" for each; one with .lock behind its name says whose it is.
class MonitoredHosts {
 public:
  static constexpr size_t kMaxHosts = 1024;

  // Takes the file, or begins one, and counts a start. AlreadyExists when another server has it;
  // FailedPrecondition, with what to do, when it is something else; else what the file system says.
  static absl::StatusOr<std::unique_ptr<MonitoredHosts>> Open(std::string path);

  // NSM's: odd, and another one at each start.
  uint32_t state() const { return state_; }
  // Who held locks before this start.
  const std::set<Gid>& before() const { return before_; }

  // On stable storage when it returns. ResourceExhausted when there are kMaxHosts; else what the
  // file system says, and it is not added.
  absl::Status Add(const Gid& host);
  // One of before() knows of the start, or will never.
  absl::Status Told(const Gid& host);
  // Forgets who was added and is not among these.
  absl::Status KeepOnly(const std::set<Gid>& holders);

 private:
  explicit MonitoredHosts(std::string path) : path_(std::move(path)) {}
  absl::Status TakeLock();
  absl::Status Read();
  std::set<Gid> All() const;
  // Whole or not at all.
  absl::Status Write() const;

  const std::string path_;
  Fd lock_;  // until this process ends, however it does
  uint32_t state_ = 0;
  std::set<Gid> before_;  // constant once open
  std::mutex mutex_;
  std::set<Gid> untold_;  // of before_
  std::set<Gid> added_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_SERVER_MONITORED_HOSTS_H_
