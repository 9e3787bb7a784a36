#include "oncrpc/bound_socket.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "oncrpc/socket_address.h"

namespace pollux::oncrpc {
namespace {

// -1 with errno, or 0.
int Bind(int family, int type, uint16_t port, Fd* bound) {
  *bound = Fd(socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!bound->ok()) return -1;
  const int on = 1, off = 0;
  // Of datagrams it would let two servers share a port.
  if (type == SOCK_STREAM) {
    setsockopt(bound->get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  }
  if (family == AF_INET6) {
    setsockopt(bound->get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  const Gid any = family == AF_INET ? Gid::FromIpv4(INADDR_ANY) : Gid();
  const Sockaddr address = ToSockaddr({.address = any, .port = port});
  return bind(bound->get(), address.get(), address.length);
}

}  // namespace

absl::StatusOr<Fd> BindEverywhere(int type, uint16_t port) {
  Fd fd;
  int bound = Bind(AF_INET6, type, port, &fd);
  if (bound != 0 && (errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT)) {
    bound = Bind(AF_INET, type, port, &fd);
  }
  if (bound == 0) return fd;
  const char* protocol = type == SOCK_STREAM ? "TCP" : "UDP";
  if (errno == EADDRINUSE) {
    return absl::AlreadyExistsError(absl::StrCat(protocol, " port ", port, " is taken"));
  }
  return absl::ErrnoToStatus(errno, absl::StrCat(protocol, " port ", port));
}

uint16_t PortOf(const Fd& socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return FromSockaddr(reinterpret_cast<const sockaddr*>(&address), size).port;
}

}  // namespace pollux::oncrpc
