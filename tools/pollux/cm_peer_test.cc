#include "tools/pollux/cm_peer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stack/engine/device.h"
#include "stack/engine/eal.h"

namespace pollux::tools {
namespace {

constexpr uint16_t kPort = 7174;
constexpr uint32_t kConnections = 3, kMessages = 5;
constexpr uint64_t kUs = 1'000, kMs = 1'000'000;

// A server (0) and a client on two devices, polled by this thread in turn, in virtual time.
class CmPeerTest : public testing::Test {
 protected:
  struct End {
    std::unique_ptr<engine::Device> device;
    std::unique_ptr<cm::Manager> manager;
    std::unique_ptr<CmPeer> peer;
    std::optional<absl::Status> done;
    std::vector<std::string> steps;
  };

  static void SetUpTestSuite() {
    ASSERT_TRUE(engine::InitEal({.huge_pages = engine::EalOptions::HugePages::kNever}).ok());
  }
  void SetUp() override {
    auto pair = engine::Device::OpenPair({.addresses = {InterfaceAddress::Ipv4(0xC0000201)}},
                                         {.addresses = {InterfaceAddress::Ipv4(0xC0000202)}});
    ASSERT_TRUE(pair.ok()) << pair.status();
    server_.device = std::move(pair->first);
    client_.device = std::move(pair->second);
    now_ns_ = std::max(server_.device->worker().now_ns(), client_.device->worker().now_ns());
    Begin(server_, std::nullopt);
    Begin(client_, SocketAddress{server_.device->gid(), kPort});
  }
  void TearDown() override {
    for (End* end : {&client_, &server_}) {
      end->peer.reset();
      end->manager.reset();
      if (end->device != nullptr) end->device->Close();
    }
  }

  void Begin(End& end, std::optional<SocketAddress> server) {
    auto manager = cm::Manager::Create(&end.device->worker(), {});
    ASSERT_TRUE(manager.ok()) << manager.status();
    end.manager = *std::move(manager);
    CmPeer::Options options;
    options.server = server;
    options.local.port = server.has_value() ? 0 : kPort;
    options.connections = kConnections;
    options.messages = kMessages;
    options.on_step = [&end](const std::string& words) { end.steps.push_back(words); };
    options.on_done = [&end](const absl::Status& status) { end.done = status; };
    auto peer = CmPeer::Start(&end.device->worker(), end.manager.get(), std::move(options));
    ASSERT_TRUE(peer.ok()) << peer.status();
    end.peer = *std::move(peer);
  }
  // False after half an hour in vain.
  template <class Until>
  bool Run(std::vector<End*> ends, uint64_t step_ns, Until until) {
    constexpr uint64_t kPatienceNs = 1'800'000 * kMs;
    for (const uint64_t end_ns = now_ns_ + kPatienceNs; now_ns_ < end_ns;) {
      if (until()) return true;
      now_ns_ += step_ns;
      for (End* end : ends) end->device->worker().Poll(now_ns_);
    }
    return false;
  }

  End server_, client_;
  uint64_t now_ns_ = 0;
};

TEST_F(CmPeerTest, BothEndInGoodOrder) {
  ASSERT_TRUE(Run({&server_, &client_}, 20 * kUs, [&] { return server_.done && client_.done; }));
  for (const End* end : {&server_, &client_}) {
    EXPECT_TRUE(end->done->ok()) << *end->done;
    EXPECT_EQ(end->steps.back(), "disconnected");
    EXPECT_EQ(end->peer->totals().disconnected, kConnections);
    EXPECT_EQ(end->peer->totals().messages_received, kConnections * kMessages);
  }
}

// As when each of its DREQs is lost, and it leaves.
TEST_F(CmPeerTest, AServerThatLeavesWithoutAWordIsNoFailure) {
  ASSERT_TRUE(Run({&server_, &client_}, 20 * kUs, [&] {
    return client_.peer->totals().messages_sent == kConnections * kMessages;
  }));
  ASSERT_TRUE(Run({&client_}, 10 * kMs, [&] { return client_.done.has_value(); }));
  EXPECT_TRUE(client_.done->ok()) << *client_.done;
  EXPECT_EQ(client_.peer->totals().disconnected, 0u);
  EXPECT_EQ(client_.steps.back(), "disconnected, not everywhere with an answer");
}

TEST_F(CmPeerTest, AServerThatLeavesBeforeItHasTheRepliesIsOne) {
  ASSERT_TRUE(Run({&server_, &client_}, 20 * kUs,
                  [&] { return client_.peer->totals().messages_received > 0; }));
  ASSERT_TRUE(Run({&client_}, 10 * kMs, [&] { return client_.done.has_value(); }));
  EXPECT_FALSE(client_.done->ok());
}

}  // namespace
}  // namespace pollux::tools
