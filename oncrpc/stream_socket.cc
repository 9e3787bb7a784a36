#include "oncrpc/stream_socket.h"

#include <rpc/rpc.h>
#include <unistd.h>

#include <cerrno>

#include "oncrpc/socket_address.h"

namespace pollux::oncrpc {
namespace {

// DPDK's tap driver lives on signals, which whatever thread is at hand gets. Linux goes on with a
// connection whose making was interrupted when it is asked again.
bool Connected(int fd, const sockaddr* address, socklen_t length) {
  while (connect(fd, address, length) != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

// Binds as far as that is possible: this host may have lost the address, and an ordinary user gets
// no reserved port. The server may accept the connection nevertheless.
void BindSource(int fd, SourcePort source, const Gid& from) {
  if (!from.IsZero()) {
    const Sockaddr address = ToSockaddr({.address = from, .port = 0});
    Sockaddr reserved = address;  // bindresvport_sa() writes its port
    if (source == SourcePort::kReserved &&
        bindresvport_sa(fd, reinterpret_cast<sockaddr*>(&reserved.storage)) == 0) {
      return;
    }
    if (bind(fd, address.get(), address.length) == 0) return;
  }
  if (source == SourcePort::kReserved) bindresvport_sa(fd, nullptr);
}

}  // namespace

int ConnectStream(const sockaddr* address, socklen_t length, int timeout_s, SourcePort source,
                  const Gid& from) {
  const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  BindSource(fd, source, from);
  if (source == SourcePort::kReserved) {
    // A server that begins at this port while the connection stands, or for the minute after it,
    // finds it free. Not before: two connections would be given one port.
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  }
  const timeval timeout = {.tv_sec = timeout_s, .tv_usec = 0};
  if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) != 0 ||
      setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) != 0 ||
      !Connected(fd, address, length)) {
    const int error = errno == EINPROGRESS ? ETIMEDOUT : errno;
    close(fd);
    errno = error;
    return -1;
  }
  return fd;
}

int ConnectTcp(const SocketAddress& server, int timeout_s, SourcePort source, const Gid& from) {
  const Sockaddr address = ToSockaddr(server);
  return ConnectStream(address.get(), address.length, timeout_s, source, from);
}

}  // namespace pollux::oncrpc
