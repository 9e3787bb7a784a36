#include "stack/engine/runtime_directory.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace pollux::engine {
namespace {

namespace fs = std::filesystem;

// Room for ":12" behind the socket's name.
constexpr size_t kSuffixBytes = 3;

// The process that made the directory: a child inherits the handler.
pid_t owner = 0;

std::string& DirectoryToRemove() {
  static auto* const directory = new std::string();
  return *directory;
}

// DPDK removes its sockets in a handler of its own, which runs before this one.
void RemoveOwnDirectory() {
  const std::string& directory = DirectoryToRemove();
  if (!directory.empty() && owner == getpid()) rmdir(directory.c_str());
}

// Has no effect on what is one user's alone, and tells Pollux's directories, whatever their names,
// from those of other programs over DPDK.
constexpr mode_t kOwnMark = S_ISVTX;

// Whoever else may change it can lead the sockets in it elsewhere, and remove or replace them.
absl::Status CheckIsOwn(const std::string& path) {
  struct stat status;
  if (lstat(path.c_str(), &status) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("directory ", path));
  }
  const auto refuse = [&](const std::string& why) {
    return absl::PermissionDeniedError(absl::StrCat(
        path, " ", why, "; remove it, or set RUNTIME_DIRECTORY or XDG_RUNTIME_DIR to a directory ",
        "of your own"));
  };
  if (S_ISLNK(status.st_mode)) return refuse("is a symbolic link");
  if (!S_ISDIR(status.st_mode)) return refuse("is not a directory");
  if (status.st_uid != geteuid()) {
    return refuse(absl::StrFormat("belongs to user %u, not to %u", status.st_uid, geteuid()));
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) return refuse("is writable by other users");
  return absl::OkStatus();
}

absl::Status MakeDirectory(const std::string& path, mode_t mark = 0) {
  if (mkdir(path.c_str(), 0700 | mark) == 0) return absl::OkStatus();
  if (errno == EEXIST) return CheckIsOwn(path);
  return absl::ErrnoToStatus(errno, absl::StrCat("directory ", path));
}

absl::StatusOr<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() + kSuffixBytes >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: longer than a socket's name may be (%u bytes)", path,
                        sizeof address.sun_path - kSuffixBytes - 1));
  }
  std::memcpy(address.sun_path, path.c_str(), path.size());
  return address;
}

absl::Status TrySocket(const std::string& directory) {
  // No shorter than DPDK's own name for it.
  const std::string path = absl::StrFormat("%s/try_%d_telemetry", directory, getpid());
  const auto address = AddressOf(path);
  if (!address.ok()) return address.status();
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::ErrnoToStatus(errno, "a socket");
  const bool bound = bind(fd, reinterpret_cast<const sockaddr*>(&*address), sizeof *address) == 0;
  const int error = errno;
  if (bound) unlink(path.c_str());
  close(fd);
  return bound ? absl::OkStatus() : absl::ErrnoToStatus(error, absl::StrCat("socket ", path));
}

bool Listens(const std::string& path) {
  const auto address = AddressOf(path);
  if (!address.ok()) return true;  // not to be asked: let it be
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return true;  // not known: let it be
  const bool connected =
      connect(fd, reinterpret_cast<const sockaddr*>(&*address), sizeof *address) == 0;
  const int error = errno;
  close(fd);
  return connected || error == EAGAIN || error == EACCES;
}

bool IsStale(const fs::path& directory) {
  struct stat status;
  if (lstat(directory.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return false;
  const bool named = directory.filename().string().rfind(kFilePrefix, 0) == 0;
  if ((!named && (status.st_mode & kOwnMark) == 0) || status.st_uid != geteuid() ||
      status.st_mtime > std::time(nullptr) - kStaleSeconds) {
    return false;
  }
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    if (!entry.is_socket(error) || Listens(entry.path())) return false;
  }
  return !error;
}

}  // namespace

std::string RuntimeDirectory() {
  const char* base = std::getenv("RUNTIME_DIRECTORY");
  if (base == nullptr && getuid() == 0) base = "/var/run";
  if (base == nullptr) base = std::getenv("XDG_RUNTIME_DIR");
  return absl::StrCat(base == nullptr ? "/tmp" : base, "/dpdk");
}

absl::Status CheckRuntimeDirectory() {
  const absl::Status status = CheckIsOwn(RuntimeDirectory());
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::Status MakeRuntimeDirectory(const std::string& file_prefix) {
  const std::string all = RuntimeDirectory();
  const std::string own = absl::StrCat(all, "/", file_prefix);
  absl::Status status = MakeDirectory(all);
  if (status.ok()) status = MakeDirectory(own, kOwnMark);
  if (status.ok()) status = AddressOf(absl::StrCat(own, "/", kTelemetrySocket)).status();
  if (status.ok()) status = TrySocket(own);
  if (!status.ok()) {
    if (CheckIsOwn(all).ok() && CheckIsOwn(own).ok()) rmdir(own.c_str());
    return status;
  }
  if (DirectoryToRemove().empty()) std::atexit(&RemoveOwnDirectory);
  DirectoryToRemove() = own;
  owner = getpid();
  return absl::OkStatus();
}

void RemoveStaleDirectories() {
  if (!CheckIsOwn(RuntimeDirectory()).ok()) return;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(RuntimeDirectory(), error)) {
    if (!IsStale(entry.path())) continue;
    for (const fs::directory_entry& socket : fs::directory_iterator(entry.path(), error)) {
      // Another process of the same file prefix may have begun since.
      if (Listens(socket.path())) break;
      unlink(socket.path().c_str());
    }
    rmdir(entry.path().c_str());
  }
}

}  // namespace pollux::engine
