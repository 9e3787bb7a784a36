#include "oncrpc/stream_socket.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <thread>

#include "oncrpc/socket_address.h"

namespace pollux::oncrpc {
namespace {

constexpr int kTimeoutS = 100;  // not an expectation

// A listener whose backlog is full until somebody accepts.
class StreamSocketTest : public ::testing::Test {
 protected:
  StreamSocketTest() {
    EXPECT_EQ(bind(listener_, ToSockaddr(server_).get(), sizeof(sockaddr_in)), 0);
    EXPECT_EQ(listen(listener_, 0), 0);
    sockaddr_in bound{};
    socklen_t length = sizeof bound;
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&bound), &length), 0);
    server_.port = ntohs(bound.sin_port);
    first_ = ConnectTcp(server_, kTimeoutS, SourcePort::kAny);
    EXPECT_GE(first_, 0);
  }
  ~StreamSocketTest() override {
    close(first_);
    close(listener_);
  }

  SocketAddress server_{.address = Gid::FromIpv4(INADDR_LOOPBACK), .port = 0};
  int listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int first_ = -1;
};

TEST_F(StreamSocketTest, SignalsDoNotInterruptConnect) {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
  std::atomic<bool> done = false;
  int second = -1;
  std::thread connecting([&] {
    second = ConnectTcp(server_, kTimeoutS, SourcePort::kAny);
    done = true;
  });
  for (int i = 0; i < 50; ++i) {
    pthread_kill(connecting.native_handle(), SIGUSR1);
    usleep(2000);
  }
  EXPECT_FALSE(done);
  const int accepted = accept(listener_, nullptr, nullptr);
  EXPECT_GE(accepted, 0);
  connecting.join();
  EXPECT_GE(second, 0);
  close(accepted);
  close(second);
}

TEST_F(StreamSocketTest, AServerCanListenOnTheReservedPortOfAClient) {
  close(accept(listener_, nullptr, nullptr));
  const int client = ConnectTcp(server_, kTimeoutS, SourcePort::kReserved);
  ASSERT_GE(client, 0);
  const int accepted = accept(listener_, nullptr, nullptr);
  sockaddr_in local{};
  socklen_t length = sizeof local;
  ASSERT_EQ(getsockname(client, reinterpret_cast<sockaddr*>(&local), &length), 0);
  if (ntohs(local.sin_port) >= IPPORT_RESERVED) GTEST_SKIP() << "only root has reserved ports";
  const auto listens_there = [&local] {
    const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    local.sin_addr.s_addr = INADDR_ANY;
    const bool done = bind(server, reinterpret_cast<sockaddr*>(&local), sizeof local) == 0 &&
                      listen(server, 1) == 0;
    close(server);
    return done;
  };
  EXPECT_TRUE(listens_there());
  close(client);
  close(accepted);
  EXPECT_TRUE(listens_there()) << "in the time-wait of the connection";
}

TEST_F(StreamSocketTest, AConnectTimeoutSetsEtimedout) {
  const int fd = ConnectTcp(server_, 1, SourcePort::kAny);
  EXPECT_LT(fd, 0);
  EXPECT_EQ(errno, ETIMEDOUT);
}

}  // namespace
}  // namespace pollux::oncrpc
