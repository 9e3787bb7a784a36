// The serving end of pollux bench, with clients that vanish, in virtual time.
#include "tools/bench/verbs_server.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cm/manager.h"
#include "stack/engine/eal.h"
#include "tests/sim/simulation.h"
#include "tools/bench/peer_handshake.h"
#include "tools/bench/verbs_connection.h"

namespace pollux::tools {
namespace {

using sim::Simulation;
constexpr uint64_t kDelayNs = 20'000;

class Client : public VerbsConnection::User {
 public:
  Client(sim::Node& node, cm::Manager* manager, const sim::Node& server) {
    connection_ = *VerbsConnection::Connect(
        &node.worker(), manager, {.address = server.gid(), .port = kBenchVerbsPort}, {}, this);
  }
  void Send() {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND_WITH_IMM;
    ASSERT_TRUE(connection_->Send(wr).ok());
  }
  bool established = false, ended = false;
  absl::Status why;

 private:
  absl::Status OnReady() override {
    for (int i = 0; i < 4; ++i) {
      if (absl::Status status = connection_->Receive(0, {}); !status.ok()) return status;
    }
    return absl::OkStatus();
  }
  void OnEstablished(absl::Span<const uint8_t>) override { established = true; }
  void OnCompletion(const ibv_wc&) override {}
  void OnEnded(const absl::Status& status) override {
    ended = true;
    why = status;
  }
  std::unique_ptr<VerbsConnection> connection_;
};

class VerbsServerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(engine::InitEal().ok()); }
  VerbsServerTest() {
    for (sim::Node* node : {&at_, &one_, &other_}) {
      managers_.push_back(cm::Manager::Create(&node->worker(), {}).value());
    }
    server_ = *VerbsServer::Listen(&at_.worker(), managers_[0].get(), kBenchVerbsPort,
                                   [this](const std::string& line) { log_.push_back(line); });
    // Everybody finds everybody.
    simulation_.RunFor(Simulation::kSecond);
  }
  ~VerbsServerTest() override { server_.reset(); }
  bool RunUntil(absl::FunctionRef<bool()> done, uint64_t seconds = 300) {
    return simulation_.RunUntil(done, simulation_.now_ns() + seconds * Simulation::kSecond);
  }
  bool Logged(const std::string& words) const {
    return std::any_of(log_.begin(), log_.end(), [&](const std::string& line) {
      return line.find(words) != std::string::npos;
    });
  }

  Simulation simulation_{1, {.min_delay_ns = kDelayNs, .max_delay_ns = kDelayNs}};
  sim::Node& at_ = simulation_.AddNode();
  sim::Node& one_ = simulation_.AddNode();
  sim::Node& other_ = simulation_.AddNode();
  std::vector<std::unique_ptr<cm::Manager>> managers_;
  std::vector<std::string> log_;
  std::unique_ptr<VerbsServer> server_;
};

// A client is killed while the server answers it; the next one comes before the server has given
// up waiting for its DREQ.
TEST_F(VerbsServerTest, ADeadClientDoesNotEndTheNextClient) {
  Client one(one_, managers_[1].get(), at_);
  ASSERT_TRUE(RunUntil([&] { return one.established && server_->served() == 1; }));
  one.Send();
  simulation_.RunFor(kDelayNs * 3 / 2);
  one_.port().SetUp(false);
  ASSERT_TRUE(RunUntil([&] { return Logged("a work request failed"); }));
  Client other(other_, managers_[2].get(), at_);
  ASSERT_TRUE(RunUntil([&] { return other.established; }, 5)) << other.why;
  simulation_.RunFor(20 * Simulation::kSecond);
  EXPECT_FALSE(other.ended) << other.why;
}

// A client vanishes, or never meant to come, between its REQ and its RTU.
TEST_F(VerbsServerTest, AClientWithoutAnRtuDoesNotBlockOthers) {
  Client one(one_, managers_[1].get(), at_);
  ASSERT_TRUE(
      RunUntil([&] { return managers_[0]->counters().of(cm::Attribute::kReq).received == 1; }));
  one_.port().SetUp(false);
  simulation_.RunFor(Simulation::kSecond);
  Client other(other_, managers_[2].get(), at_);
  EXPECT_TRUE(RunUntil([&] { return other.established || other.ended; }, 20));
  EXPECT_TRUE(other.established) << other.why;
}

// As many connections as are named are served side by side, and one more is rejected.
TEST_F(VerbsServerTest, ConnectionsAboveTheMaximumAreRejected) {
  std::vector<std::unique_ptr<Client>> clients;
  const auto stand = [&] {
    return std::count_if(clients.begin(), clients.end(),
                         [](const auto& one) { return one->established && !one->ended; });
  };
  for (size_t i = 0; i < kBenchMaxPairs; ++i) {
    clients.push_back(std::make_unique<Client>(one_, managers_[1].get(), at_));
  }
  ASSERT_TRUE(RunUntil([&] { return stand() == static_cast<int64_t>(kBenchMaxPairs); }));
  Client other(other_, managers_[2].get(), at_);
  ASSERT_TRUE(RunUntil([&] { return other.ended; }));
  EXPECT_NE(other.why.message().find("rejected"), absl::string_view::npos) << other.why;
  for (auto& one : clients) one->Send();
  simulation_.RunFor(Simulation::kSecond);
  EXPECT_EQ(stand(), static_cast<int64_t>(kBenchMaxPairs));
  EXPECT_EQ(log_.size(), 1u);
}

}  // namespace
}  // namespace pollux::tools
