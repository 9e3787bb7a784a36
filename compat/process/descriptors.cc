#include "compat/process/descriptors.h"

#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace pollux::compat {
namespace {

// In order. Empty without /proc: nothing is known then, and nothing is changed.
std::vector<int> OpenDescriptors() {
  std::vector<int> open;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    int fd;
    if (absl::SimpleAtoi(entry.path().filename().string(), &fd)) open.push_back(fd);
  }
  // The listing's own is closed by now.
  std::erase_if(open, [](int fd) { return fcntl(fd, F_GETFD) < 0; });
  std::ranges::sort(open);
  return open;
}

void SetCloseOnExec(int fd) {
  const int flags = fcntl(fd, F_GETFD);
  if (flags >= 0) fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
}

bool IsTap(int fd) {
  std::error_code error;
  return std::filesystem::read_symlink(absl::StrCat("/proc/self/fd/", fd), error) == "/dev/net/tun";
}

// Nothing if it is no socket.
std::optional<int> DomainOf(int fd) {
  int domain = 0;
  socklen_t bytes = sizeof domain;
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) != 0) return std::nullopt;
  return domain;
}

// Or may be bound to it later, since it is bound to an interface.
bool IsAtPort(int fd, uint16_t udp_port) {
  sockaddr_storage own{};
  socklen_t bytes = sizeof own;
  // Both have it at the same place.
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &bytes) != 0) return false;
  if (own.ss_family != AF_INET && own.ss_family != AF_INET6) return false;
  const in_port_t port = reinterpret_cast<sockaddr_in&>(own).sin_port;
  char interface[IFNAMSIZ];
  bytes = sizeof interface;
  return port == htons(udp_port) ||
         (port == 0 && getsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface, &bytes) == 0 &&
          bytes > 0);
}

bool HoldsPort(int fd, uint16_t udp_port) {
  const std::optional<int> domain = DomainOf(fd);
  if (!domain) return IsTap(fd);
  return *domain == AF_PACKET || *domain == AF_XDP || IsAtPort(fd, udp_port);
}

bool IsUnder(int fd, std::string_view prefix) {
  sockaddr_un own{};
  socklen_t bytes = sizeof own;
  return getsockname(fd, reinterpret_cast<sockaddr*>(&own), &bytes) == 0 &&
         own.sun_family == AF_UNIX && bytes >= offsetof(sockaddr_un, sun_path) + prefix.size() &&
         std::equal(prefix.begin(), prefix.end(), own.sun_path);
}

template <class Wanted>
std::vector<HeldDescriptor> Select(const std::vector<int>& descriptors, Wanted wanted) {
  std::vector<HeldDescriptor> held;
  for (const int fd : descriptors) {
    struct stat file {};
    if (wanted(fd) && fstat(fd, &file) == 0) held.push_back({fd, file.st_dev, file.st_ino});
  }
  return held;
}

// `name` is getsockname() or getpeername().
bool IsAt(int fd, int (*name)(int, sockaddr*, socklen_t*), const std::string& address) {
  sockaddr_un found{};
  socklen_t bytes = sizeof found - 1;  // it ends with a zero
  if (name(fd, reinterpret_cast<sockaddr*>(&found), &bytes) != 0 || found.sun_family != AF_UNIX) {
    return false;
  }
  // Names that are no paths begin with a zero.
  return address == found.sun_path + (found.sun_path[0] == '\0' ? 1 : 0);
}

bool IsStill(const HeldDescriptor& held) {
  struct stat now {};
  return fstat(held.fd, &now) == 0 && now.st_dev == held.device && now.st_ino == held.inode;
}

}  // namespace

NewDescriptors::NewDescriptors() : before_(OpenDescriptors()) {}

std::vector<int> NewDescriptors::OpenedSince() const {
  std::vector<int> opened = OpenDescriptors();
  std::erase_if(opened, [this](int fd) { return std::ranges::binary_search(before_, fd); });
  return opened;
}

std::vector<HeldDescriptor> NewDescriptors::OfPort(uint16_t udp_port) const {
  return Select(OpenedSince(), [udp_port](int fd) { return HoldsPort(fd, udp_port); });
}

std::vector<HeldDescriptor> SocketsAt(const std::string& address) {
  return Select(OpenDescriptors(), [&address](int fd) {
    return IsAt(fd, getsockname, address) || IsAt(fd, getpeername, address);
  });
}

std::vector<HeldDescriptor> SocketsUnder(std::string_view prefix) {
  return Select(OpenDescriptors(), [prefix](int fd) { return IsUnder(fd, prefix); });
}

void CloseOnExec(std::span<const HeldDescriptor> descriptors) {
  for (const HeldDescriptor& held : descriptors) {
    if (IsStill(held)) SetCloseOnExec(held.fd);
  }
}

void LetGo(std::span<const HeldDescriptor> descriptors) {
  if (descriptors.empty()) return;
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nothing < 0) return;
  for (const HeldDescriptor& held : descriptors) {
    if (IsStill(held)) dup3(nothing, held.fd, O_CLOEXEC);
  }
  close(nothing);
}

void NewDescriptors::CloseOnExec() const {
  for (const int fd : OpenedSince()) SetCloseOnExec(fd);
}

}  // namespace pollux::compat
