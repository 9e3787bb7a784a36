#include "tools/stat/telemetry_client.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "tools/common/interrupt.h"

namespace pollux::tools {
namespace {

constexpr char kGreeting[] = R"({"version":"DPDK","pid":7,"max_output_len":16384})";
constexpr int kNeverS = 3600;  // longer than a test may take

// A telemetry socket, of which a test decides when it answers.
class FakeProcess {
 public:
  FakeProcess() {
    std::string directory = std::filesystem::temp_directory_path() / "plxXXXXXX";
    if (mkdtemp(directory.data()) == nullptr) std::abort();
    directory_ = directory;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path().size() >= sizeof address.sun_path) std::abort();
    std::memcpy(address.sun_path, path().data(), path().size());
    fd_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        listen(fd_, 1) != 0) {
      std::abort();
    }
  }
  ~FakeProcess() {
    if (client_ >= 0) close(client_);
    if (fd_ >= 0) close(fd_);
    std::filesystem::remove_all(directory_);
  }
  FakeProcess(const FakeProcess&) = delete;
  FakeProcess& operator=(const FakeProcess&) = delete;

  std::string path() const { return directory_ / "telemetry"; }

  // As DPDK at its limit of clients.
  void Refuse() { close(accept(fd_, nullptr, nullptr)); }
  void End() {
    close(fd_);
    fd_ = -1;
  }
  void Greet() {
    client_ = accept(fd_, nullptr, nullptr);
    if (send(client_, kGreeting, std::strlen(kGreeting), MSG_NOSIGNAL) < 0) std::abort();
  }

 private:
  std::filesystem::path directory_;
  int fd_ = -1;
  int client_ = -1;
};

TEST(TelemetryClientTest, ASilentProcessExceedsTheDeadline) {
  const FakeProcess process;
  const auto client = TelemetryClient::Connect(
      process.path(), kNeverS, std::chrono::steady_clock::now() + std::chrono::milliseconds(1));
  ASSERT_TRUE(client.ok()) << client.status();
  const absl::Status status = (*client)->Greet();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_TRUE(absl::IsDeadlineExceeded((*client)->Ask("workers").status()));
}

TEST(TelemetryClientTest, AProcessWithTooManyClientsHasNotEnded) {
  FakeProcess process;
  auto client = TelemetryClient::Connect(process.path(), kNeverS);
  ASSERT_TRUE(client.ok()) << client.status();
  process.Refuse();
  const absl::Status refused = (*client)->Greet();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_TRUE(absl::StrContains(refused.message(), "is ending, or has 10 ")) << refused;
  client = TelemetryClient::Connect(process.path(), kNeverS);
  ASSERT_TRUE(client.ok()) << client.status();
  process.End();
  const absl::Status ended = (*client)->Greet();
  EXPECT_TRUE(absl::IsUnavailable(ended)) << ended;
}

TEST(TelemetryClientTest, ASignalThatDoesNotInterruptDoesNotEndARequest) {
  struct sigaction action {
  }, former{};
  action.sa_handler = [](int) {};
  sigaction(SIGUSR1, &action, &former);
  FakeProcess process;
  const auto client = TelemetryClient::Connect(process.path(), kNeverS);
  ASSERT_TRUE(client.ok()) << client.status();
  const pthread_t waits = pthread_self();
  std::thread other([&] {
    for (int i = 0; i < 10; ++i) {
      usleep(10'000);
      pthread_kill(waits, SIGUSR1);
    }
    process.Greet();
  });
  const absl::Status status = (*client)->Greet();
  other.join();
  sigaction(SIGUSR1, &former, nullptr);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ((*client)->pid(), 7u);
}

TEST(TelemetryClientTest, ASignalThatInterruptsCancelsARequest) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto interrupt = [] {
    CatchInterrupts();
    int exit_status = 1;
    {
      const FakeProcess process;
      const auto client = TelemetryClient::Connect(process.path(), kNeverS);
      if (!client.ok()) std::exit(2);
      std::thread other([] {
        usleep(10'000);
        raise(SIGINT);  // on this thread, not on the one that waits
      });
      if (absl::IsCancelled((*client)->Greet())) exit_status = 0;
      other.join();
    }
    std::exit(exit_status);
  };
  EXPECT_EXIT(interrupt(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace pollux::tools
