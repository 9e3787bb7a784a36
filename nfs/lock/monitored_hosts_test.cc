#include "nfs/lock/monitored_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace pollux::nfs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Gid kHostOne = Gid::FromIpv4(1), kHostTwo = Gid::FromIpv4(2), kHostThree = Gid::FromIpv4(3);

class MonitoredHostsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = std::string(getenv("TEST_TMPDIR")) + "/hostsXXXXXX";
    directory_ = mkdtemp(pattern.data());
    path_ = directory_ + "/hosts";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::unique_ptr<MonitoredHosts> Open() {
    auto opened = MonitoredHosts::Open(path_);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return *std::move(opened);
  }

  std::string directory_, path_;
};

TEST_F(MonitoredHostsTest, EachStartHasAHigherOddState) {
  uint32_t last = 0;
  for (int i = 0; i < 3; ++i) {
    const auto hosts = Open();
    EXPECT_EQ(hosts->state() % 2, 1u);
    EXPECT_GT(hosts->state(), last);
    last = hosts->state();
    EXPECT_THAT(hosts->before(), IsEmpty());
  }
}

TEST_F(MonitoredHostsTest, EarlierHostsAreListedUntilTheReclaimTimeEnds) {
  {
    const auto hosts = Open();
    for (const Gid& host : {kHostOne, kHostTwo, kHostThree, kHostOne})
      EXPECT_TRUE(hosts->Add(host).ok());
  }
  {
    const auto hosts = Open();
    EXPECT_THAT(hosts->before(), ElementsAre(kHostOne, kHostTwo, kHostThree));
    EXPECT_TRUE(hosts->Add(kHostTwo).ok());
    EXPECT_TRUE(hosts->Told(kHostTwo).ok());
    EXPECT_TRUE(hosts->Told(kHostThree).ok());
    EXPECT_THAT(hosts->before(), ElementsAre(kHostOne, kHostTwo, kHostThree));
  }
  {
    const auto hosts = Open();
    EXPECT_THAT(hosts->before(), ElementsAre(kHostOne, kHostTwo, kHostThree));
    EXPECT_TRUE(hosts->Told(kHostTwo).ok());
    EXPECT_TRUE(hosts->Told(kHostThree).ok());
    EXPECT_TRUE(hosts->Add(kHostTwo).ok());
    hosts->KeepToldUntil({});
    EXPECT_TRUE(hosts->KeepOnly({kHostTwo}).ok());
  }
  EXPECT_THAT(Open()->before(), ElementsAre(kHostOne, kHostTwo));
}

TEST_F(MonitoredHostsTest, AboveTheLimitHostsWithoutLocksAreRemoved) {
  const auto host = [](size_t number) { return Gid::FromIpv4(static_cast<uint32_t>(number)); };
  {
    const auto hosts = Open();
    const auto holders = [] { return std::set<Gid>{kHostOne, kHostTwo}; };
    for (size_t i = 1; i <= MonitoredHosts::kCrowded; ++i) {
      EXPECT_TRUE(hosts->Add(host(i), holders).ok());
    }
    EXPECT_TRUE(hosts->Add(host(MonitoredHosts::kCrowded), holders).ok());
  }
  EXPECT_EQ(Open()->before().size(), MonitoredHosts::kCrowded);
  std::filesystem::remove(path_);
  {
    const auto hosts = Open();
    for (size_t i = 1; i <= MonitoredHosts::kCrowded; ++i) EXPECT_TRUE(hosts->Add(host(i)).ok());
    EXPECT_TRUE(hosts->Add(host(5000), [] { return std::set<Gid>{kHostOne, kHostTwo}; }).ok());
  }
  EXPECT_THAT(Open()->before(), ElementsAre(kHostOne, kHostTwo, host(5000)));
}

// The server is killed once more after it has told, and before the host has asked for its locks.
TEST_F(MonitoredHostsTest, ANotifiedHostIsNotifiedAgainAfterARestart) {
  EXPECT_TRUE(Open()->Add(kHostOne).ok());
  EXPECT_TRUE(Open()->Told(kHostOne).ok());
  EXPECT_THAT(Open()->before(), ElementsAre(kHostOne));
}

TEST_F(MonitoredHostsTest, KeepOnlyRemovesAddedHostsWithoutLocks) {
  EXPECT_TRUE(Open()->Add(kHostOne).ok());
  {
    const auto hosts = Open();
    EXPECT_TRUE(hosts->Add(kHostTwo).ok());
    EXPECT_TRUE(hosts->Add(kHostThree).ok());
    EXPECT_TRUE(hosts->KeepOnly({kHostThree}).ok());
  }
  EXPECT_THAT(Open()->before(), ElementsAre(kHostOne, kHostThree));
}

TEST_F(MonitoredHostsTest, HostsAboveTheMaximumAreRefused) {
  std::ofstream file(path_);
  file << "state 7\n";
  for (uint32_t i = 0; i < MonitoredHosts::kMaxHosts; ++i)
    file << "host 10.0." << i / 256 << '.' << i % 256 << '\n';
  file.close();
  {
    const auto hosts = Open();
    EXPECT_EQ(hosts->state(), 9u);
    EXPECT_EQ(hosts->before().size(), MonitoredHosts::kMaxHosts);
    for (const Gid& host : hosts->before()) ASSERT_TRUE(hosts->Add(host).ok());
    EXPECT_EQ(hosts->Add(kHostOne).code(), absl::StatusCode::kResourceExhausted);
  }
}

TEST_F(MonitoredHostsTest, AnInvalidFileIsAnErrorAndNotOverwritten) {
  for (const char* text : {"nonsense\n", "state x\n", "host 10.0.0\n"}) {
    std::ofstream(path_) << text;
    const absl::Status status = MonitoredHosts::Open(path_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("remove it"));
  }
  EXPECT_FALSE(MonitoredHosts::Open(directory_ + "/none/hosts").ok());
}

TEST_F(MonitoredHostsTest, AHostThatCannotBeStoredIsNotAdded) {
  auto hosts = Open();
  // In the way of the new file.
  ASSERT_EQ(mkdir((path_ + ".new").c_str(), 0700), 0);
  EXPECT_FALSE(hosts->Add(kHostOne).ok());
  std::filesystem::remove(path_ + ".new");
  EXPECT_TRUE(hosts->Add(kHostTwo).ok());
  hosts.reset();
  EXPECT_THAT(Open()->before(), ElementsAre(kHostTwo));
}

TEST_F(MonitoredHostsTest, OnlyOneServerCanOpenTheFile) {
  auto hosts = Open();
  const absl::Status status = MonitoredHosts::Open(path_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("--lock-file"));
  hosts.reset();
  Open();
}

}  // namespace
}  // namespace pollux::nfs
