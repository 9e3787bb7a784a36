#include "nfs/lock/restart_notifier.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <set>
#include <string>

#include "nfs/lock/nsm.h"
#include "oncrpc/tcp_server_for_test.h"

namespace pollux::nfs {
namespace {

TEST(RestartNotifierTest, NotifyCarriesNameAndState) {
  int heard = 0;
  {
    oncrpc::TcpServer server(
        [&](const oncrpc::CallHeader& call, absl::Span<const uint8_t> arguments) {
          EXPECT_EQ(call.program, kNsmProgram);
          EXPECT_EQ(call.version, kNsmV1);
          EXPECT_EQ(call.procedure, static_cast<uint32_t>(NsmProcedure::kNotify));
          StatChge change;
          EXPECT_TRUE(oncrpc::Decode(oncrpc::XdrReader(arguments), &change));
          EXPECT_FALSE(change.mon_name.text.empty());
          EXPECT_EQ(change.state, 7u);
          return ++heard == 1 ? oncrpc::Record({.xid = call.xid}, {}) : std::vector<uint8_t>();
        });
    EXPECT_TRUE(NotifyOfStateAt(server.endpoint(), 7));
    EXPECT_FALSE(NotifyOfStateAt(server.endpoint(), 7));
  }
  EXPECT_EQ(heard, 2);
  EXPECT_FALSE(NotifyOfStateAt({.address = Gid::FromIpv4(0x7F000001), .port = 1}, 7));
}

class NotifiedHostsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = std::string(getenv("TEST_TMPDIR")) + "/hostsXXXXXX";
    directory_ = mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::unique_ptr<MonitoredHosts> Open() {
    auto opened = MonitoredHosts::Open(directory_ + "/hosts");
    EXPECT_TRUE(opened.ok()) << opened.status();
    return *std::move(opened);
  }
  std::string directory_;
};

// All are told, once, though one of them does not answer; the others are forgotten when the time is
// over in which they may ask.
TEST_F(NotifiedHostsTest, EachHostIsNotifiedOnceAndThenRemoved) {
  constexpr uint32_t kHosts = 13;
  const Gid silent = Gid::FromIpv4(0);
  {
    const auto hosts = Open();
    for (uint32_t i = 0; i < kHosts; ++i) ASSERT_TRUE(hosts->Add(Gid::FromIpv4(i)).ok());
  }
  auto hosts = Open();
  hosts->KeepToldUntil({});
  std::atomic<uint32_t> told = 0;
  std::promise<void> all, answer;
  const std::shared_future<void> answered = answer.get_future().share();
  {
    const RestartNotifier notifier(hosts.get(), [&](const Gid& host, uint32_t state) {
      EXPECT_EQ(state, hosts->state());
      if (host == silent) {
        answered.wait();
        return false;
      }
      if (++told == kHosts - 1) all.set_value();
      return true;
    });
    all.get_future().wait();
    answer.set_value();
  }
  EXPECT_EQ(told, kHosts - 1);
  hosts.reset();
  EXPECT_EQ(Open()->before(), std::set<Gid>{silent});
}

TEST_F(NotifiedHostsTest, SilentHostsDoNotDelayOthers) {
  constexpr uint32_t kSilent = RestartNotifier::kMaxThreads / 8;
  {
    const auto hosts = Open();
    for (uint32_t i = 0; i <= kSilent; ++i) ASSERT_TRUE(hosts->Add(Gid::FromIpv4(i)).ok());
  }
  const auto hosts = Open();
  std::promise<void> told, answer;
  const std::shared_future<void> answered = answer.get_future().share();
  const RestartNotifier notifier(hosts.get(), [&](const Gid& host, uint32_t) {
    if (host == Gid::FromIpv4(kSilent)) {
      told.set_value();
      return true;
    }
    answered.wait();
    return true;
  });
  // A guard against hanging.
  EXPECT_EQ(told.get_future().wait_for(std::chrono::seconds(100)), std::future_status::ready);
  answer.set_value();
}

}  // namespace
}  // namespace pollux::nfs
