#include "stack/kernel/name_claim.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"

namespace pollux::kernel {
namespace {

struct Address {
  sockaddr_un name{};
  socklen_t bytes = 0;
};

// Abstract names begin with a zero byte and end where the address ends.
Address AddressOf(const std::string& name) {
  Address address{.name = {.sun_family = AF_UNIX, .sun_path = {}}};
  const std::string path = std::string(NameClaim::kPrefix) + name;
  const size_t length = path.copy(address.name.sun_path, sizeof address.name.sun_path);
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  return address;
}

Fd OpenSocket() { return Fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)); }

}  // namespace

absl::StatusOr<NameClaim> NameClaim::Take(const std::string& name) {
  Fd fd = OpenSocket();
  if (fd.get() < 0) return absl::ErrnoToStatus(errno, "opening a socket");
  const Address address = AddressOf(name);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address.name), address.bytes) == 0) {
    // Others can send to it otherwise, and nobody reads it.
    (void)shutdown(fd.get(), SHUT_RD);
    return NameClaim(std::move(fd));
  }
  if (errno == EADDRINUSE) {
    return absl::AlreadyExistsError(absl::StrCat("\"", name, "\" is held by a process"));
  }
  return absl::ErrnoToStatus(errno, absl::StrCat("binding a socket to \"", name, "\""));
}

bool NameClaim::IsTaken(const std::string& name) {
  const Fd fd = OpenSocket();
  const Address address = AddressOf(name);
  // Without a descriptor, or if the call is not allowed, it may be taken.
  return fd.get() < 0 ||
         connect(fd.get(), reinterpret_cast<const sockaddr*>(&address.name), address.bytes) == 0 ||
         errno != ECONNREFUSED;
}

}  // namespace pollux::kernel
