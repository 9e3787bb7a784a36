#include "compat/runtime/memif_sockets.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

namespace pollux::compat {
namespace {

// A listener, and the two ends of a connection to it, as DPDK's are.
class MemifSocketsTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/plxXXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    directory_ = pattern;
    name_ = directory_ + "/s";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path + (IsAbstract() ? 1 : 0), name_.c_str(), name_.size());
    const auto* generic = reinterpret_cast<const sockaddr*>(&address);
    listener_ = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    ASSERT_EQ(bind(listener_, generic, sizeof address), 0);
    ASSERT_EQ(listen(listener_, 1), 0);
    client_ = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    ASSERT_EQ(connect(client_, generic, sizeof address), 0);
    server_ = accept(listener_, nullptr, nullptr);
    ASSERT_GE(server_, 0);
  }
  void TearDown() override {
    for (const int fd : {listener_, client_, server_}) EXPECT_EQ(close(fd), 0);
    std::filesystem::remove_all(directory_);
  }
  static bool IsAbstract() { return GetParam(); }
  static bool ClosesOnExec(int fd) { return (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0; }

  std::string directory_, name_;
  int listener_ = -1, client_ = -1, server_ = -1;
};

TEST_P(MemifSocketsTest, AreClosedOnExecOnceTheLinkIsUp) {
  int others[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, others), 0);
  MemifSockets sockets(name_);
  sockets.OnPortEvent(1, IBV_EVENT_PORT_ACTIVE);
  for (const int fd : {listener_, client_, server_}) EXPECT_TRUE(ClosesOnExec(fd));
  for (const int fd : others) {
    EXPECT_FALSE(ClosesOnExec(fd));
    close(fd);
  }
}

// The other side learns of the end though a child lives on.
TEST_P(MemifSocketsTest, AChildDoesNotKeepTheLinkOpen) {
  int others[2], ready[2], end[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, others), 0);
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(end), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  char byte = 0;
  if (child == 0) {
    close(end[1]);
    MemifSockets(name_).LetGo();
    const bool kept = write(others[0], ".", 1) == 1 && write(ready[1], ".", 1) == 1;
    _exit(kept && read(end[0], &byte, 1) == 0 ? 0 : 1);
  }
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  ASSERT_EQ(close(std::exchange(client_, dup(listener_))), 0);
  alarm(60);
  EXPECT_EQ(recv(server_, &byte, 1, 0), 0);
  alarm(0);
  for (const int fd : {end[0], end[1], ready[0], ready[1], others[0], others[1]}) close(fd);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_P(MemifSocketsTest, OnlyTheServerRemovesItsSocketFile) {
  if (IsAbstract()) GTEST_SKIP() << "there is none";
  const auto of = [this](const char* role) {
    return MemifSockets::Of(std::string("net_memif0,role=") + role + ",socket=" + name_);
  };
  const auto server = of("server"), client = of("client");
  client->RemoveFile();
  EXPECT_TRUE(std::filesystem::exists(name_));
  const std::string aside = name_ + "-aside";
  ASSERT_EQ(rename(name_.c_str(), aside.c_str()), 0);
  ASSERT_TRUE(std::filesystem::create_directory(name_)) << "another's";
  server->RemoveFile();
  EXPECT_TRUE(std::filesystem::exists(name_));
  std::filesystem::remove(name_);
  ASSERT_EQ(rename(aside.c_str(), name_.c_str()), 0);
  server->RemoveFile();
  EXPECT_FALSE(std::filesystem::exists(name_));
}

INSTANTIATE_TEST_SUITE_P(Addresses, MemifSocketsTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Name" : "Path"; });

TEST(MemifSockets, OtherPortsHaveNone) {
  EXPECT_EQ(MemifSockets::Of("net_ring0"), nullptr);
  EXPECT_NE(MemifSockets::Of("net_memif0,role=server"), nullptr);
  EXPECT_NE(MemifSockets::Of("net_memif0,role=client,socket=/run/x.sock"), nullptr);
}

}  // namespace
}  // namespace pollux::compat
