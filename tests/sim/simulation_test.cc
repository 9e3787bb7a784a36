#include "tests/sim/simulation.h"

#include <gtest/gtest.h>

#include "stack/engine/eal.h"

namespace pollux::sim {
namespace {

class SimulationTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(engine::InitEal().ok()); }
};

// Asks for the address of a host; returns when that was known, 0 when never.
uint64_t ResolveOnce(Simulation& simulation, Node& from, uint32_t address, absl::Status* status) {
  bool done = false;
  transport::PollContext context = from.worker().poll_context();
  from.interface().Resolve(Gid::FromIpv4(address), context, [&](absl::Status result) {
    done = true;
    *status = result;
  });
  const uint64_t deadline = simulation.now_ns() + 60 * Simulation::kSecond;
  return simulation.RunUntil([&] { return done; }, deadline) ? simulation.now_ns() : 0;
}

TEST_F(SimulationTest, NodesResolveEachOtherInVirtualTime) {
  Simulation simulation(1, {.min_delay_ns = 7'000, .max_delay_ns = 7'000});
  Node& a = simulation.AddNode();
  Node& b = simulation.AddNode();
  absl::Status status = absl::UnknownError("never called");
  const uint64_t start = simulation.now_ns();
  EXPECT_EQ(ResolveOnce(simulation, a, b.address(), &status), start + 14'000);
  EXPECT_TRUE(status.ok()) << status;
  // Nobody has this address: three requests, a second apart, and no waiting in real time.
  const uint64_t gave_up = ResolveOnce(simulation, a, b.address() + 7, &status);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_NEAR(static_cast<double>(gave_up - start), 3e9, 1e7);
  EXPECT_EQ(simulation.Leaks(), "");
}

TEST_F(SimulationTest, LostRequestsAreRetried) {
  int found = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Simulation simulation(seed, {.loss = 0.3});
    Node& a = simulation.AddNode();
    Node& b = simulation.AddNode();
    absl::Status status;
    ASSERT_NE(ResolveOnce(simulation, a, b.address(), &status), 0u);
    found += status.ok();
    ASSERT_EQ(simulation.Leaks(), "");
  }
  EXPECT_GT(found, 15);
}

TEST_F(SimulationTest, RunForStopsAtTheDeadline) {
  Simulation simulation(1, {});
  simulation.AddNode();
  const uint64_t start = simulation.now_ns();
  simulation.RunFor(12'345);
  EXPECT_EQ(simulation.now_ns(), start + 12'345);
}

// A node that always has something to do cannot stop time for the others.
TEST_F(SimulationTest, ABusyNodeDoesNotStopTime) {
  struct Busy : engine::Poller {
    bool Poll(uint64_t) override { return true; }
  } busy;
  Simulation simulation(1, {});
  simulation.AddNode().worker().AddPoller(&busy);
  simulation.RunFor(2'000);
}

// What a host's worker was polled with.
struct Watch : engine::Poller {
  bool Poll(uint64_t now_ns) override {
    seen_ns = now_ns;
    return false;
  }
  uint64_t seen_ns = 0;
};

TEST_F(SimulationTest, EachHostHasItsOwnClock) {
  constexpr uint64_t kMs = 1'000'000;
  Simulation simulation(1, {});
  Node& a = simulation.AddNode();
  Node& b = simulation.AddNode();
  Watch at_a, at_b;
  a.worker().AddPoller(&at_a);
  b.worker().AddPoller(&at_b);
  a.JumpClock(60 * Simulation::kSecond);
  simulation.RunFor(kMs);
  EXPECT_EQ(at_a.seen_ns, simulation.now_ns() + 60 * Simulation::kSecond);
  EXPECT_EQ(at_b.seen_ns, simulation.now_ns());
  a.StopClock();
  const uint64_t stopped_ns = at_a.seen_ns;
  simulation.RunFor(kMs);
  EXPECT_EQ(at_a.seen_ns, stopped_ns);
  EXPECT_EQ(at_b.seen_ns, simulation.now_ns());
  a.StartClock();
  simulation.RunFor(kMs);
  EXPECT_EQ(at_a.seen_ns, simulation.now_ns() + 60 * Simulation::kSecond);
}

// Frames know nothing of the hosts' clocks.
TEST_F(SimulationTest, TheNetworkUsesTheTimeOfTheSimulation) {
  Simulation simulation(1, {.min_delay_ns = 7'000, .max_delay_ns = 7'000});
  Node& a = simulation.AddNode();
  Node& b = simulation.AddNode();
  a.JumpClock(Simulation::kSecond);
  b.StopClock();
  absl::Status status = absl::UnknownError("never called");
  const uint64_t start = simulation.now_ns();
  EXPECT_EQ(ResolveOnce(simulation, a, b.address(), &status), start + 14'000);
  EXPECT_TRUE(status.ok()) << status;
}

// A timer fires by its host's clock.
TEST_F(SimulationTest, AClockJumpFiresTimersEarly) {
  struct Alarm {
    static void Ring(void* self, uint64_t) { static_cast<Alarm*>(self)->rung = true; }
    bool rung = false;
  } alarm;
  Simulation simulation(1, {});
  Node& node = simulation.AddNode();
  engine::Timer timer(&Alarm::Ring, &alarm);
  node.worker().wheel().Arm(timer, simulation.now_ns() + 10 * Simulation::kSecond);
  node.StopClock();
  simulation.RunFor(20 * Simulation::kSecond);
  EXPECT_FALSE(alarm.rung);
  node.StartClock();
  simulation.RunFor(1);
  EXPECT_TRUE(alarm.rung);
  alarm.rung = false;
  node.worker().wheel().Arm(timer, simulation.now_ns() + 10 * Simulation::kSecond);
  node.JumpClock(9 * Simulation::kSecond);
  const uint64_t start_ns = simulation.now_ns();
  EXPECT_TRUE(simulation.RunUntil([&] { return alarm.rung; }, start_ns + 5 * Simulation::kSecond));
  EXPECT_NEAR(static_cast<double>(simulation.now_ns() - start_ns), 1e9, 1e4);
}

TEST_F(SimulationTest, LeaksNamesTheNode) {
  Simulation simulation(1, {});
  Node& node = simulation.AddNode();
  rte_mbuf* frame = rte_pktmbuf_alloc(node.worker().packet_pool());
  EXPECT_EQ(simulation.Leaks(), "node 1: 1 buffers; ");
  rte_pktmbuf_free(frame);
}

}  // namespace
}  // namespace pollux::sim
