#include "nfs/lock/monitored_hosts.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "stack/base/address.h"

namespace pollux::nfs {
namespace {

constexpr absl::string_view kState = "state ", kHost = "host ";

absl::Status HostListError(const std::string& path, const char* what) {
  return absl::ErrnoToStatus(errno,
                             absl::StrCat("the list of hosts with locks, ", path, ": ", what));
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

bool TakeLine(absl::string_view line, uint32_t* state, std::set<Gid>* hosts) {
  if (absl::StartsWith(line, kState)) {
    return absl::SimpleAtoi(line.substr(kState.size()), state);
  }
  if (!absl::StartsWith(line, kHost)) return false;
  const auto host = ParseAddress(line.substr(kHost.size()));
  if (host.ok()) hosts->insert(*host);
  return host.ok();
}

}  // namespace

absl::StatusOr<std::unique_ptr<MonitoredHosts>> MonitoredHosts::Open(std::string path) {
  std::unique_ptr<MonitoredHosts> hosts(new MonitoredHosts(std::move(path)));
  if (absl::Status status = hosts->TakeLock(); !status.ok()) return status;
  if (absl::Status status = hosts->Read(); !status.ok()) return status;
  hosts->untold_ = hosts->before_;
  // Odd: this host is up.
  hosts->state_ = (hosts->state_ | 1) + 2;
  if (absl::Status status = hosts->Write(); !status.ok()) return status;
  return hosts;
}

absl::Status MonitoredHosts::TakeLock() {
  lock_ = Fd(open(absl::StrCat(path_, ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock_.ok()) return HostListError(path_, "cannot be locked");
  if (flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) return absl::OkStatus();
  if (errno != EWOULDBLOCK) return HostListError(path_, "cannot be locked");
  return absl::AlreadyExistsError(absl::StrCat("another server uses the list of hosts with locks, ",
                                               path_, "; give another with --lock-file"));
}

absl::Status MonitoredHosts::Read() {
  if (access(path_.c_str(), F_OK) != 0 && errno == ENOENT) return absl::OkStatus();
  std::ifstream file(path_, std::ios::binary);
  if (!file) return HostListError(path_, "cannot be read");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    if (!TakeLine(line, &state_, &before_)) {
      return absl::FailedPreconditionError(
          absl::StrCat("the list of hosts with locks, ", path_, ", has an invalid line, \"", line,
                       "\"; remove it to get a new one (locks held before this start are then "
                       "lost)"));
    }
  }
  return absl::OkStatus();
}

std::set<Gid> MonitoredHosts::All() const {
  std::set<Gid> all = untold_;
  all.insert(added_.begin(), added_.end());
  // They may not have asked yet: a start before they have is for them too.
  if (MayAsk()) all.insert(told_.begin(), told_.end());
  return all;
}

absl::Status MonitoredHosts::Write() const {
  std::string text = absl::StrCat(kState, state_, "\n");
  for (const Gid& host : All()) {
    absl::StrAppend(&text, kHost, FormatAddress(host), "\n");
  }
  const std::string fresh = absl::StrCat(path_, ".new");
  Fd file(open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.ok()) return HostListError(path_, "cannot be created");
  if (write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      fsync(file.get()) != 0 || rename(fresh.c_str(), path_.c_str()) != 0) {
    return HostListError(path_, "cannot be written");
  }
  const Fd directory(open(DirectoryOf(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.ok() || fsync(directory.get()) != 0)
    return HostListError(path_, "cannot be written");
  return absl::OkStatus();
}

absl::Status MonitoredHosts::Add(const Gid& host, const Holders& holders) {
  const std::lock_guard lock(mutex_);
  if (added_.contains(host)) return absl::OkStatus();
  const bool is_there = untold_.contains(host) || (MayAsk() && told_.contains(host));
  if (!is_there && holders && (added_.size() >= crowded_ || All().size() >= kMaxHosts)) {
    Forget(holders());
    crowded_ = std::max(kCrowded, 2 * added_.size());
  }
  if (!is_there && All().size() >= kMaxHosts) {
    return absl::ResourceExhaustedError(
        absl::StrCat(kMaxHosts, " hosts hold locks, the most that are possible"));
  }
  added_.insert(host);
  if (is_there) return absl::OkStatus();
  absl::Status status = Write();
  if (!status.ok()) added_.erase(host);
  return status;
}

absl::Status MonitoredHosts::Told(const Gid& host) {
  const std::lock_guard lock(mutex_);
  if (untold_.erase(host) > 0) told_.insert(host);
  return Write();
}

void MonitoredHosts::KeepToldUntil(std::chrono::steady_clock::time_point end) {
  const std::lock_guard lock(mutex_);
  told_end_ = end;
}

void MonitoredHosts::Forget(const std::set<Gid>& holders) {
  std::erase_if(added_, [&](const Gid& host) { return !holders.contains(host); });
}

absl::Status MonitoredHosts::KeepOnly(const std::set<Gid>& holders) {
  const std::lock_guard lock(mutex_);
  Forget(holders);
  return Write();
}

}  // namespace pollux::nfs
