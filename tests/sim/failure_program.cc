#include "tests/sim/failure_program.h"

#include <infiniband/verbs.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/sim/connect.h"
#include "tests/sim/failing_end.h"
#include "tests/sim/simulation.h"

namespace pollux::sim {
namespace {

constexpr uint64_t kDeadlineNs = 600 * Simulation::kSecond;

class FailureProgram {
 public:
  explicit FailureProgram(uint64_t seed)
      : random_(seed),
        conditions_(DrawConditions(random_)),
        simulation_(random_.Next64(), conditions_) {
    const NodeOptions options{.packet_buffers = 1023,
                              .max_queue_pairs = 16,
                              .max_regions = 128,
                              .ipv6 = random_.Chance(0.3)};
    const bool limits_rates = random_.Chance(0.3);
    for (int i = 0; i < 2; ++i) {
      nodes_[i] = &simulation_.AddNode(options);
      if (limits_rates) LimitRates(random_, *nodes_[i]);
      hosts_[i] = std::make_unique<FailingHost>(*nodes_[i], next_slot_++, random_.Chance(0.4),
                                                random_.Next64(), &log_);
    }
  }

  FailureOutcome Run() {
    if (!FindEachOther(simulation_, *nodes_[0], *nodes_[1])) {
      log_.Violate("the hosts do not find each other");
    }
    for (uint64_t count = 1 + random_.Below(4); count > 0; --count) {
      connections_.push_back({.type = DrawType()});
    }
    for (uint64_t lives = 1 + random_.Below(2); lives > 0; --lives) Live(lives == 1);
    for (const auto& host : hosts_) host->Finish();
    simulation_.RunFor(Simulation::kSecond);
    if (const std::string leaks = simulation_.Leaks(); !leaks.empty()) log_.Violate(leaks);
    outcome_.violation = log_.violation;
    outcome_.digest = log_.digest;
    return outcome_;
  }

 private:
  struct Connection {
    ibv_qp_type type;
    std::unique_ptr<FailingEnd> ends[2];
    verbs::QueuePair* idle[2] = {};  // between two lives
  };

  ibv_qp_type DrawType() {
    const uint64_t draw = random_.Below(10);
    return draw < 6 ? IBV_QPT_RC : draw < 8 ? IBV_QPT_UC : IBV_QPT_UD;
  }

  // What only its own receives can suffer cannot befall an end that shares them.
  SimulatedFault DrawFault(int side) {
    if (random_.Chance(0.6)) return SimulatedFault::kNone;
    const auto fault = static_cast<SimulatedFault>(random_.Below(kSimulatedFaults - 1));
    const bool of_receives = fault == SimulatedFault::kNoReceives ||
                             fault == SimulatedFault::kReceiveTooSmall ||
                             fault == SimulatedFault::kReceiveGone;
    return of_receives && hosts_[side]->srq() != nullptr ? SimulatedFault::kError : fault;
  }

  void Begin(Connection& connection, int number) {
    const uint32_t most = connection.type == IBV_QPT_UD ? 4096 : FailingHost::kMaxMessage;
    const uint32_t max_length = most >> random_.Below(8);
    for (int side = 0; side < 2; ++side) {
      connection.ends[side] = std::make_unique<FailingEnd>(
          absl::StrCat(side == 0 ? "a" : "b", number), *hosts_[side], connection.type,
          connection.idle[side], random_.Next64(), &log_);
      connection.ends[side]->Draw(1 + static_cast<int>(random_.Below(20)), max_length,
                                  DrawFault(side));
    }
    FailingEnd &a = *connection.ends[0], &b = *connection.ends[1];
    a.LayOut(b, next_slot_++);
    b.LayOut(a, next_slot_++);
    ibv_qp_attr attr = DrawAttributes(random_);
    // Often none: a larger number is rarely too small.
    if (random_.Chance(0.4))
      attr.retry_cnt = static_cast<uint8_t>(random_.Below(1 + random_.Below(7)));
    const uint32_t psn_a = DrawPsn(random_), psn_b = DrawPsn(random_);
    const bool in_order = conditions_.duplication == 0 && conditions_.reordering == 0;
    a.Connect(attr, psn_a, psn_b, in_order);
    b.Connect(attr, psn_b, psn_a, in_order);
  }

  void Live(bool last) {
    int number = 0;
    for (Connection& connection : connections_) Begin(connection, number++);
    // An overrun completion queue does not come back: not before the last life.
    if (last && random_.Chance(0.2)) {
      hosts_[random_.Below(2)]->StallAfter(1 + random_.Below(100));
    }
    if (random_.Chance(0.3) && !RunUntilSettled(1 + random_.Below(1'000'000))) {
      nodes_[random_.Below(2)]->JumpClock(1'000'000 + random_.Below(60 * Simulation::kSecond));
    }
    const bool settled = RunUntilSettled(kDeadlineNs);
    // It may be that no completion came for which there was no room.
    for (const auto& host : hosts_) host->Resume();
    if (!settled && !RunUntilSettled(kDeadlineNs)) {
      std::string progress;
      ForEachEnd([&](FailingEnd& end) { absl::StrAppend(&progress, end.Progress(), "; "); });
      log_.Violate(absl::StrCat("no end: ", progress));
    }
    // What is still on its way meets queue pairs that have nothing left to do.
    simulation_.RunFor(2 * Simulation::kSecond);
    ForEachEnd([](FailingEnd& end) { end.CheckAndStop(); });
    ForEachEnd([](FailingEnd& end) { end.SettleMemory(); });
    ForEachEnd([](FailingEnd& end) { end.CheckMemory(); });
    ForEachEnd([&](FailingEnd& end) {
      ++outcome_.fired[static_cast<size_t>(end.fault())];
      outcome_.failed += end.failed();
      outcome_.gave_up += end.gave_up();
      outcome_.lost_messages += end.lost_messages();
    });
    for (Connection& connection : connections_) {
      for (int side = 0; side < 2; ++side) {
        connection.idle[side] = connection.ends[side]->Release(last || random_.Chance(0.3));
      }
    }
    // Time-wait: their last acknowledgements must not meet the same queue pairs in their next life.
    simulation_.RunFor(2 * Simulation::kSecond);
  }

  template <typename Function>
  void ForEachEnd(Function function) {
    for (Connection& connection : connections_) {
      for (const auto& end : connection.ends) function(*end);
    }
  }

  bool RunUntilSettled(uint64_t duration_ns) {
    const auto settled = [](const Connection& connection) {
      return connection.ends[0]->settled() && connection.ends[1]->settled();
    };
    return simulation_.RunUntil(
        [&] {
          return !log_.violation.empty() ||
                 std::all_of(connections_.begin(), connections_.end(), settled);
        },
        simulation_.now_ns() + duration_ns);
  }

  Random random_;
  Conditions conditions_;
  Simulation simulation_;
  Log log_;
  unsigned next_slot_ = 0;
  Node* nodes_[2];
  std::unique_ptr<FailingHost> hosts_[2];
  std::vector<Connection> connections_;
  FailureOutcome outcome_;
};

}  // namespace

FailureOutcome RunFailureProgram(uint64_t seed) { return FailureProgram(seed).Run(); }

}  // namespace pollux::sim
