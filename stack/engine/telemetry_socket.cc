#include "stack/engine/telemetry_socket.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "stack/engine/runtime_directory.h"

namespace pollux::engine {
namespace {

struct Guarded {
  pid_t owner = 0;
  std::string directory;
  std::string own_socket;  // of several in the directory
  // In a child: the process's own, and those of others with the same prefix, since there is no
  // telling whose is whose.
  std::vector<std::string> kept;
  int lock_fd = -1;
};

// There until the last handler of the process has run.
Guarded& TheGuarded() {
  static auto* const guarded = new Guarded();
  return *guarded;
}

bool InChild() { return getpid() != TheGuarded().owner; }

// What this process calls it while DPDK looks for it.
std::string Aside(const std::string& path) {
  const size_t name = path.rfind('/') + 1;
  return absl::StrCat(path.substr(0, name), getpid(), "-", path.substr(name));
}

// One child at a time, from PutAside() to PutBack(): another would find no name to put aside, and
// DPDK would remove the one that is put back. A child that dies in between lets go.
void Lock() {
  const int fd = open(TheGuarded().directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  while (flock(fd, LOCK_EX) != 0 && errno == EINTR) {
  }
  TheGuarded().lock_fd = fd;
}

void PutAside() {
  if (!InChild()) return;
  Lock();
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(TheGuarded().directory, error)) {
    const std::string path = entry.path();
    const bool named = absl::StartsWith(entry.path().filename().string(), kTelemetrySocket);
    if (named && link(path.c_str(), Aside(path).c_str()) == 0) TheGuarded().kept.push_back(path);
  }
}

void PutBack() {
  if (!InChild()) return;
  // One that has ended meanwhile has left nothing, and nothing is left of it.
  const bool owner_ended = kill(TheGuarded().owner, 0) != 0 && errno == ESRCH;
  for (const std::string& path : TheGuarded().kept) {
    const std::string aside = Aside(path);
    const bool back = owner_ended || link(aside.c_str(), path.c_str()) == 0 || errno == EEXIST;
    if (back) unlink(aside.c_str());
  }
  if (owner_ended) rmdir(TheGuarded().directory.c_str());
  if (TheGuarded().lock_fd >= 0) close(std::exchange(TheGuarded().lock_fd, -1));
}

// The name of this process's socket in the directory: processes that share a file prefix number
// theirs. Empty: it has none.
std::string OwnSocket() {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    int fd;
    sockaddr_un address{};
    socklen_t bytes = sizeof address - 1;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &fd) ||
        getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0 ||
        address.sun_family != AF_UNIX) {
      continue;
    }
    const std::string path = address.sun_path;
    if (absl::StartsWith(path, absl::StrCat(TheGuarded().directory, "/"))) return path;
  }
  return "";
}

}  // namespace

void GuardTelemetrySocketFrom(const std::string& file_prefix) {
  static const int registered = std::atexit(PutBack);
  static_cast<void>(registered);
  TheGuarded() = {getpid(), absl::StrCat(RuntimeDirectory(), "/", file_prefix), {}, {}, -1};
}

void GuardTelemetrySocketTo() {
  TheGuarded().own_socket = OwnSocket();
  static const int registered = std::atexit(PutAside);
  static_cast<void>(registered);
}

void RemoveTelemetrySocket() {
  const Guarded& guarded = TheGuarded();
  if (guarded.own_socket.empty() || InChild()) return;
  unlink(guarded.own_socket.c_str());
  rmdir(guarded.directory.c_str());
}

}  // namespace pollux::engine
