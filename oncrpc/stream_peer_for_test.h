// A TCP service on the loopback interface that ignores the calls that it receives.
#ifndef POLLUX_ONCRPC_STREAM_PEER_FOR_TEST_H_
#define POLLUX_ONCRPC_STREAM_PEER_FOR_TEST_H_

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "stack/base/socket_address.h"

namespace pollux::oncrpc {

// Accepts one connection, then calls `next` and sends the result, again and again, until the
// connection is closed or `next` returns nothing.
class StreamPeer {
 public:
  using Next = std::function<std::vector<uint8_t>()>;

  explicit StreamPeer(Next next) : next_(std::move(next)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), length), 0);
    EXPECT_EQ(listen(fd_, 1), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~StreamPeer() {
    shutdown(fd_, SHUT_RDWR);
    thread_.join();
    close(fd_);
  }
  StreamPeer(const StreamPeer&) = delete;
  StreamPeer& operator=(const StreamPeer&) = delete;
  SocketAddress endpoint() const {
    return {.address = Gid::FromIpv4(INADDR_LOOPBACK), .port = port_};
  }

 private:
  void Serve() {
    const int connection = accept(fd_, nullptr, nullptr);
    if (connection < 0) return;
    std::vector<uint8_t> bytes = next_();
    while (!bytes.empty() && send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0) {
      bytes = next_();
    }
    close(connection);
  }

  Next next_;
  int fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_STREAM_PEER_FOR_TEST_H_
