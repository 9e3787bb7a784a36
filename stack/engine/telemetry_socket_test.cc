#include "stack/engine/telemetry_socket.h"

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
#include <vector>

#include "stack/engine/runtime_directory.h"

namespace pollux::engine {
namespace {

constexpr char kPrefix[] = "guarded";

// A process that has a socket, with an exit handler that removes it as DPDK has one, and children.
// It has a process of its own, since handlers cannot be taken back.
class Owner {
 public:
  explicit Owner(const std::string& base) : socket_(base + "/dpdk/" + kPrefix + "/") {
    setenv("RUNTIME_DIRECTORY", base.c_str(), 1);
    socket_ += kTelemetrySocket;
    std::filesystem::create_directories(std::filesystem::path(socket_).parent_path());
  }
  const std::string& socket_path() const { return socket_; }

  void Open() {
    GuardTelemetrySocketFrom(kPrefix);
    static std::string* const path = &socket_;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, socket_.c_str());
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) _exit(1);
    std::atexit([] { unlink(path->c_str()); });
    GuardTelemetrySocketTo();
  }

 private:
  std::string socket_;
};

std::vector<std::string> Names(const std::string& socket_path) {
  std::vector<std::string> names;
  const auto directory = std::filesystem::path(socket_path).parent_path();
  if (!std::filesystem::exists(directory)) return names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.push_back(entry.path().filename());
  }
  return names;
}

class TelemetrySocketTest : public testing::Test {
 protected:
  void SetUp() override {
    // Below the length of a socket's name.
    char pattern[] = "/tmp/plxXXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    base_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(base_); }
  // Runs `body` with an owner, in a process that ends with what it returns.
  template <class Body>
  int InProcess(Body&& body) {
    const pid_t process = fork();
    if (process == 0) {
      Owner owner(base_);
      owner.Open();
      std::exit(body(owner));
    }
    int status = -1;
    waitpid(process, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  static void RunChild() {
    const pid_t child = fork();
    if (child == 0) std::exit(0);
    waitpid(child, nullptr, 0);
  }

  std::string base_;
};

TEST_F(TelemetrySocketTest, SurvivesChildrenThatExit) {
  const std::vector<std::string> alone = {kTelemetrySocket};
  EXPECT_EQ(InProcess([&](const Owner& owner) {
              for (int i = 0; i < 3; ++i) RunChild();
              return Names(owner.socket_path()) == alone ? 0 : 2;
            }),
            0);
  EXPECT_FALSE(std::filesystem::exists(base_ + "/dpdk/guarded/" + kTelemetrySocket))
      << "its owner removes it";
}

// Children that end at the same time, as a pool of processes does.
TEST_F(TelemetrySocketTest, SurvivesChildrenThatExitConcurrently) {
  const std::vector<std::string> alone = {kTelemetrySocket};
  EXPECT_EQ(InProcess([&](const Owner& owner) {
              for (int round = 0; round < 20; ++round) {
                int start[2];
                char none;
                if (pipe(start) != 0) return 3;
                for (int i = 0; i < 16; ++i) {
                  if (fork() != 0) continue;
                  close(start[1]);
                  (void)!read(start[0], &none, 1);
                  std::exit(0);
                }
                close(start[0]);
                close(start[1]);
                while (wait(nullptr) > 0) {
                }
              }
              return Names(owner.socket_path()) == alone ? 0 : 2;
            }),
            0);
}

TEST_F(TelemetrySocketTest, IsRemovedOnlyByItsOwner) {
  EXPECT_EQ(InProcess([&](const Owner& owner) -> int {
              const pid_t child = fork();
              if (child == 0) {
                RemoveTelemetrySocket();
                _exit(0);
              }
              waitpid(child, nullptr, 0);
              if (!std::filesystem::exists(owner.socket_path())) _exit(2);
              RemoveTelemetrySocket();
              _exit(0);
            }),
            0);
  EXPECT_FALSE(std::filesystem::exists(base_ + "/dpdk/guarded"));
}

TEST_F(TelemetrySocketTest, OtherSocketsWithTheSamePrefixAreKept) {
  EXPECT_EQ(InProcess([&](const Owner& owner) -> int {
              const std::string other = owner.socket_path() + ":1";
              close(open(other.c_str(), O_CREAT | O_WRONLY, 0600));
              RemoveTelemetrySocket();
              if (Names(owner.socket_path()) !=
                  std::vector{std::filesystem::path(other).filename().string()}) {
                _exit(2);
              }
              _exit(0);
            }),
            0);
}

TEST_F(TelemetrySocketTest, ChildrenThatOutliveTheOwnerLeaveNoDirectory) {
  int hold[2], ended[2];
  ASSERT_TRUE(pipe(hold) == 0 && pipe(ended) == 0);
  char none;
  EXPECT_EQ(InProcess([&](const Owner&) {
              if (fork() != 0) return 0;
              close(hold[1]);
              return static_cast<int>(read(hold[0], &none, 1));
            }),
            0);
  close(hold[1]);
  close(ended[1]);
  EXPECT_EQ(read(ended[0], &none, 1), 0);
  EXPECT_FALSE(std::filesystem::exists(base_ + "/dpdk/guarded"));
  close(hold[0]);
  close(ended[0]);
}

}  // namespace
}  // namespace pollux::engine
