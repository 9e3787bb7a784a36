// What a manager of services is told: its side is a socket of the test's.
#include "tools/common/service_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "cm/gsi/shard.h"
#include "stack/engine/eal.h"

namespace pollux::tools {
namespace {

class ServiceManagerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(engine::InitEal().ok()); }

  void SetUp() override {
    // An abstract name: a path in a test's directory would be too long.
    const std::string name = "@pollux-service-manager-test-" + std::to_string(getpid());
    sockaddr_un address{.sun_family = AF_UNIX};
    std::memcpy(address.sun_path + 1, name.data() + 1, name.size() - 1);
    socket_ = socket(AF_UNIX, SOCK_DGRAM, 0);
    ASSERT_EQ(bind(socket_, reinterpret_cast<const sockaddr*>(&address),
                   offsetof(sockaddr_un, sun_path) + name.size()),
              0);
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
    engine::DeviceOptions options;
    options.addresses = {InterfaceAddress::Ipv4(0xC0000201)};
    options.workers = 2;
    options.gsi_owner = &cm::GsiOwner;
    auto devices = engine::Device::OpenPair(options, options);
    ASSERT_TRUE(devices.ok()) << devices.status();
    auto node = Node::Start(std::move(devices->first), {});
    ASSERT_TRUE(node.ok()) << node.status();
    node_ = *std::move(node);
    peer_ = std::move(devices->second);
  }
  void TearDown() override {
    node_->StopPolling();
    node_->device().Close();
    peer_->Close();
    close(socket_);
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
  }
  // What came next; empty if nothing has within 100 ms.
  std::string Told() {
    const timeval timeout{.tv_usec = 100'000};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    char text[64];
    const ssize_t length = recv(socket_, text, sizeof text, 0);
    return length < 0 ? "" : std::string(text, static_cast<size_t>(length));
  }

  int socket_ = -1;
  std::unique_ptr<Node> node_;
  std::unique_ptr<engine::Device> peer_;
};

TEST_F(ServiceManagerTest, ReadyAndStoppingAreReported) {
  {
    ServiceManager manager(node_.get());
    EXPECT_EQ(Told(), "READY=1");
    manager.Heartbeat();
    EXPECT_EQ(Told(), "");
    EXPECT_EQ(manager.heartbeat_ms(), 1000);
  }
  EXPECT_EQ(Told(), "STOPPING=1");
}

TEST_F(ServiceManagerTest, ReloadsAreReportedWithTheirTime) {
  ServiceManager manager(node_.get());
  EXPECT_EQ(Told(), "READY=1");
  manager.Reloading();
  EXPECT_THAT(Told(), testing::MatchesRegex("RELOADING=1\nMONOTONIC_USEC=[0-9]+"));
  manager.Reloaded();
  EXPECT_EQ(Told(), "READY=1");
}

TEST_F(ServiceManagerTest, HeartbeatIsAThirdOfTheWatchdogInterval) {
  setenv("WATCHDOG_USEC", "600000", 1);
  ServiceManager manager(node_.get());
  EXPECT_EQ(manager.heartbeat_ms(), 200);
  EXPECT_EQ(Told(), "READY=1");
  manager.Heartbeat();
  EXPECT_EQ(Told(), "WATCHDOG=1");
}

TEST_F(ServiceManagerTest, NoHeartbeatWhileAWorkerDoesNotPoll) {
  setenv("WATCHDOG_USEC", "30000000", 1);
  ServiceManager manager(node_.get());
  EXPECT_EQ(Told(), "READY=1");
  std::promise<void> blocked, goes_on;
  engine::Actor::Post(node_->worker(1), [&] {
    blocked.set_value();
    goes_on.get_future().wait();
  });
  blocked.get_future().wait();
  std::thread heartbeat([&] { manager.Heartbeat(); });
  EXPECT_EQ(Told(), "");
  goes_on.set_value();
  heartbeat.join();
  EXPECT_EQ(Told(), "WATCHDOG=1");
}

}  // namespace
}  // namespace pollux::tools
