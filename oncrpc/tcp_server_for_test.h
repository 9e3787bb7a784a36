// A TCP service on the loopback interface whose replies are chosen by the test.
#ifndef POLLUX_ONCRPC_TCP_SERVER_FOR_TEST_H_
#define POLLUX_ONCRPC_TCP_SERVER_FOR_TEST_H_

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "oncrpc/codec.h"
#include "oncrpc/record_mark.h"
#include "oncrpc/rpc_message.h"

namespace pollux::oncrpc {

class TcpServer {
 public:
  // Called on the server's thread with a call's header and arguments. The result is sent unchanged;
  // an empty result closes the connection.
  using Handler = std::function<std::vector<uint8_t>(const CallHeader& call,
                                                     absl::Span<const uint8_t> arguments)>;

  explicit TcpServer(Handler handler) : handler_(std::move(handler)) {
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), length), 0);
    EXPECT_EQ(listen(fd_, 4), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~TcpServer() {
    shutdown(fd_, SHUT_RDWR);
    thread_.join();
    close(fd_);
  }
  SocketAddress endpoint() const { return {.address = Gid::FromIpv4(0x7F000001), .port = port_}; }
  // The address from which the last connection came.
  Gid client() const { return Gid::FromIpv4(client_); }

 private:
  void Serve() {
    for (;;) {
      sockaddr_in client{};
      socklen_t length = sizeof client;
      const int connection = accept(fd_, reinterpret_cast<sockaddr*>(&client), &length);
      if (connection < 0) return;
      client_ = ntohl(client.sin_addr.s_addr);
      while (ServeOne(connection)) {
      }
      close(connection);
    }
  }
  bool ServeOne(int connection) {
    uint8_t mark[kRecordMarkBytes];
    if (recv(connection, mark, sizeof mark, MSG_WAITALL) != sizeof mark) return false;
    std::vector<uint8_t> record(ParseRecordMark(mark).fragment_bytes);
    const ssize_t bytes = recv(connection, record.data(), record.size(), MSG_WAITALL);
    if (bytes != static_cast<ssize_t>(record.size())) return false;
    CallHeader call;
    const size_t header = ParseCall(record, &call);
    if (header == 0) return false;
    const std::vector<uint8_t> reply = handler_(call, absl::MakeConstSpan(record).subspan(header));
    return !reply.empty() && send(connection, reply.data(), reply.size(), MSG_NOSIGNAL) ==
                                 static_cast<ssize_t>(reply.size());
  }

  Handler handler_;
  int fd_ = -1;
  uint16_t port_ = 0;
  std::atomic<uint32_t> client_ = 0;
  std::thread thread_;
};

// A record of one fragment that holds a reply header and results.
inline std::vector<uint8_t> Record(const ReplyHeader& reply, const std::vector<uint8_t>& results) {
  std::vector<uint8_t> message(64);
  message.resize(EmitReply(reply, absl::MakeSpan(message)));
  message.insert(message.end(), results.begin(), results.end());
  const auto mark = EmitRecordMark({.fragment_bytes = message.size()});
  message.insert(message.begin(), mark.begin(), mark.end());
  return message;
}

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_TCP_SERVER_FOR_TEST_H_
