// NULL calls, one at a time, in virtual time: over a network that loses packets or becomes slower,
// and between hosts that sometimes stand still.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "cm/manager.h"
#include "rpcrdma/client.h"
#include "rpcrdma/server.h"
#include "stack/engine/eal.h"
#include "tests/sim/rpc_service.h"
#include "tests/sim/simulation.h"

namespace pollux::sim {
namespace {

struct Outcome {
  uint64_t calls = 0;
  uint64_t packets = 0;
  uint64_t retransmitted = 0;
};

// A client that makes its next call when it has the reply to the last one. Each frame takes
// `delay_ns`.
class Calls {
 public:
  explicit Calls(uint64_t delay_ns)
      : good_{.min_delay_ns = delay_ns, .max_delay_ns = delay_ns},
        simulation_(1, good_),
        client_node_(simulation_.AddNode()),
        server_node_(simulation_.AddNode()),
        client_manager_(cm::Manager::Create(&client_node_.worker()).value()),
        server_manager_(cm::Manager::Create(&server_node_.worker()).value()),
        server_(rpcrdma::Server::Create(&server_node_.worker(), server_manager_.get(), {}).value()),
        client_(
            rpcrdma::Client::Create(&client_node_.worker(), client_manager_.get(), RpcBinding(), {})
                .value()) {
    rpcrdma::Program program{.binding = RpcBinding(), .procedures = {}};
    program.procedures.push_back(
        {kRpcNull, [](const rpcrdma::CallView&, rpcrdma::ReplyHandle reply) { reply.Send({}); }});
    EXPECT_TRUE(server_->RegisterProgram(std::move(program)).ok());
    EXPECT_TRUE(server_->Listen(kRpcPort).ok());
    const auto connected = [](const absl::Status& status) { EXPECT_TRUE(status.ok()) << status; };
    EXPECT_TRUE(
        client_->Connect({server_node_.gid(), kRpcPort}, connected, [](absl::Status) {}).ok());
    EXPECT_TRUE(simulation_.RunUntil([this] { return client_->connected(); },
                                     simulation_.now_ns() + 10 * Simulation::kSecond));
    Call();
    simulation_.RunFor(Simulation::kSecond / 100);  // the round trip is known
  }
  ~Calls() {
    stopped_ = true;
    simulation_.fabric().SetConditions(good_);
    simulation_.RunFor(Simulation::kSecond);
    client_->Disconnect();
    server_->Shutdown();
    simulation_.RunFor(10 * Simulation::kSecond);
  }

  // A second in which the network loses packets with probability `loss`.
  Outcome WithLoss(double loss) {
    const Outcome before = Count();
    Conditions conditions = good_;
    conditions.loss = loss;
    simulation_.fabric().SetConditions(conditions);
    simulation_.RunFor(Simulation::kSecond);
    return Since(before);
  }
  // A second in which each frame takes `delay_ns`, after 50 ms in which this is measured.
  Outcome WithDelay(uint64_t delay_ns) {
    simulation_.fabric().SetConditions({.min_delay_ns = delay_ns, .max_delay_ns = delay_ns});
    simulation_.RunFor(Simulation::kSecond / 20);
    const Outcome before = Count();
    simulation_.RunFor(Simulation::kSecond);
    return Since(before);
  }
  // A second in which a host stands still after every 4 ms, for up to 8 ms: what was sent to it
  // takes so much longer. A busy machine's scheduler does so.
  Outcome WithStandstills() {
    const Outcome before = Count();
    for (int i = 0; i < 100; ++i) {
      simulation_.RunFor(4'000'000);
      const uint64_t ns = 8'000'000 >> simulation_.random().Below(10);
      Conditions conditions = good_;
      conditions.min_delay_ns = conditions.max_delay_ns = good_.min_delay_ns + ns;
      simulation_.fabric().SetConditions(conditions);
      simulation_.RunFor(2 * good_.min_delay_ns);
      simulation_.fabric().SetConditions(good_);
      simulation_.RunFor(ns);
    }
    return Since(before);
  }

 private:
  void Call() {
    const auto done = [this](const absl::Status& status, const oncrpc::Reply*) {
      EXPECT_TRUE(status.ok()) << status;
      ++calls_;
      if (!stopped_) Call();
    };
    EXPECT_TRUE(client_->Call({.procedure = kRpcNull}, done).ok());
  }
  Outcome Count() {
    Outcome now{.calls = calls_, .packets = simulation_.fabric().counters().sent};
    for (Node* node : {&client_node_, &server_node_}) {
      now.retransmitted += node->worker().counters().retransmitted_pkts;
    }
    return now;
  }
  Outcome Since(const Outcome& before) {
    const Outcome now = Count();
    return {now.calls - before.calls, now.packets - before.packets,
            now.retransmitted - before.retransmitted};
  }

  const Conditions good_;
  Simulation simulation_;
  Node& client_node_;
  Node& server_node_;
  std::unique_ptr<cm::Manager> client_manager_, server_manager_;
  std::unique_ptr<rpcrdma::Server> server_;
  std::unique_ptr<rpcrdma::Client> client_;
  uint64_t calls_ = 0;
  bool stopped_ = false;
};

class LossLatencySimTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  void SetUp() override { ASSERT_TRUE(engine::InitEal().ok()); }
};
class StandstillSimTest : public LossLatencySimTest {};
INSTANTIATE_TEST_SUITE_P(OneWayNs, LossLatencySimTest, ::testing::Values(1'000, 10'000, 50'000),
                         ::testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(OneWayNs, StandstillSimTest, ::testing::Values(1'000, 10'000),
                         ::testing::PrintToStringParamName());

TEST_P(LossLatencySimTest, CallsOverALossyNetworkKeepAThirdOfTheirRate) {
  Calls calls(GetParam());
  const Outcome good = calls.WithLoss(0);
  EXPECT_EQ(good.retransmitted, 0u);
  for (const double loss : {0.001, 0.01, 0.02}) {
    const Outcome lossy = calls.WithLoss(loss);
    EXPECT_GT(lossy.retransmitted, 0u);
    EXPECT_GT(lossy.calls, good.calls / 3) << loss;
  }
}

// While a message takes longer than the wait for a probe, only responses to both transmissions tell
// how long.
TEST_P(LossLatencySimTest, ASlowerNetworkIsMeasured) {
  Calls calls(GetParam());
  for (const uint64_t delay_ns : {100'000, 300'000, 1'000'000, 4'000'000}) {
    const Outcome outcome = calls.WithDelay(delay_ns);
    EXPECT_GT(outcome.calls, Simulation::kSecond / delay_ns / 3);
    EXPECT_EQ(outcome.retransmitted, 0u) << delay_ns;
  }
}

TEST_P(StandstillSimTest, StandstillsCauseFewRetransmissions) {
  Calls calls(GetParam());
  const Outcome outcome = calls.WithStandstills();
  EXPECT_LT(100 * outcome.retransmitted, outcome.packets)
      << outcome.retransmitted << " of " << outcome.packets;
}

}  // namespace
}  // namespace pollux::sim
