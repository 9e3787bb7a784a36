#include "rpcrdma/stream_socket.h"

#include <netinet/in.h>
#include <rpc/rpc.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace pollux::rpcrdma {

int ConnectStream(const sockaddr* address, socklen_t length, int timeout_s, SourcePort source) {
  const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (source == SourcePort::kReserved) {
    // An ordinary user has none, and the server may take that too.
    bindresvport_sa(fd, nullptr);
  }
  const timeval timeout = {.tv_sec = timeout_s, .tv_usec = 0};
  if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) != 0 ||
      setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) != 0 ||
      connect(fd, address, length) != 0) {
    const int error = errno == EINPROGRESS ? ETIMEDOUT : errno;
    close(fd);
    errno = error;
    return -1;
  }
  return fd;
}

int ConnectTcp(const cm::Endpoint& server, int timeout_s, SourcePort source) {
  if (server.address.IsIpv4()) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(server.port);
    address.sin_addr.s_addr = htonl(server.address.Ipv4());
    return ConnectStream(reinterpret_cast<const sockaddr*>(&address), sizeof address, timeout_s,
                         source);
  }
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(server.port);
  memcpy(&address.sin6_addr, server.address.raw.data(), server.address.raw.size());
  return ConnectStream(reinterpret_cast<const sockaddr*>(&address), sizeof address, timeout_s,
                       source);
}

}  // namespace pollux::rpcrdma
