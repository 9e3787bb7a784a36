#include "tests/sim/rc_program.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/sim/rc_side.h"
#include "tests/sim/simulation.h"

namespace pollux::sim {
namespace {

ibv_qp_attr DrawAttributes(Random& random) {
  ibv_qp_attr attr{};
  attr.path_mtu = static_cast<ibv_mtu>(IBV_MTU_256 + random.Below(5));
  attr.max_rd_atomic = attr.max_dest_rd_atomic = static_cast<uint8_t>(1 + random.Below(16));
  attr.min_rnr_timer = static_cast<uint8_t>(1 + random.Below(14));
  attr.timeout = static_cast<uint8_t>(13 + random.Below(3));
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  return attr;
}

// As CM does before it connects: ARP tries again once a second, which is longer than a queue pair
// may wait.
bool FindEachOther(Simulation& simulation, Node& from, Node& to) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    bool done = false, found = false;
    transport::PollContext context = from.worker().poll_context();
    from.interface().Resolve(to.gid(), context, [&](const absl::Status& status) {
      done = true;
      found = status.ok();
    });
    simulation.RunUntil([&] { return done; }, simulation.now_ns() + 10 * Simulation::kSecond);
    if (found) return true;
  }
  return false;
}

uint64_t Sum(Node& a, Node& b, uint64_t transport::Counters::*counter) {
  return a.worker().counters().*counter + b.worker().counters().*counter;
}

}  // namespace

RcOutcome RunRcProgram(uint64_t seed) {
  Random random(seed);
  Simulation simulation(random.Next64(), DrawConditions(random));
  const NodeOptions options = {.packet_buffers = 1023, .max_queue_pairs = 16, .max_regions = 64};
  Node& node_a = simulation.AddNode(options);
  Node& node_b = simulation.AddNode(options);
  RcLog log;
  RcSide a("a", node_a, 0, random.Next64(), &log);
  RcSide b("b", node_b, 1, random.Next64(), &log);
  const uint32_t max_length = 1u << (8 + random.Below(9));  // 64 KiB at most
  for (RcSide* side : {&a, &b}) side->DrawOperations(1 + random.Below(40), max_length);
  a.LayOut(b);
  b.LayOut(a);
  const uint32_t depth = 2 + static_cast<uint32_t>(random.Below(30));
  a.Create(depth);
  b.Create(depth);
  if (!FindEachOther(simulation, node_a, node_b) || !FindEachOther(simulation, node_b, node_a)) {
    log.Violate("the hosts do not find each other");
  }
  const ibv_qp_attr attr = DrawAttributes(random);
  a.Connect(attr);
  b.Connect(attr);

  const auto run = [&](uint64_t duration_ns, auto done) {
    return simulation.RunUntil([&] { return !log.violation.empty() || done(); },
                               simulation.now_ns() + duration_ns);
  };
  const auto finished = [&] { return a.finished() && b.finished(); };
  // A cable that is pulled for a moment: shorter than all retries take together.
  if (random.Chance(0.2) && !run(1 + random.Below(10'000'000), finished)) {
    node_b.port().SetUp(false);
    run(1 + random.Below(100'000'000), finished);
    node_b.port().SetUp(true);
  }
  if (!run(600 * Simulation::kSecond, finished)) {
    log.Violate(absl::StrCat("the program does not end; ", a.Progress(), "; ", b.Progress()));
  }
  // What is still on its way must not be taken for new.
  run(2 * Simulation::kSecond, [] { return false; });

  if (log.violation.empty()) {
    a.PostStale(b.MakeStaleKey(), b.target_address());
    if (!run(600 * Simulation::kSecond, [&] { return a.stale_finished(); })) {
      log.Violate("the WRITE by a stale key does not end");
    }
    run(Simulation::kSecond, [] { return false; });
  }
  a.Finish();
  b.Finish();
  run(Simulation::kSecond, [] { return false; });

  RcOutcome outcome;
  outcome.retransmitted_pkts = Sum(node_a, node_b, &transport::Counters::retransmitted_pkts);
  outcome.rnr_naks = Sum(node_a, node_b, &transport::Counters::rcvd_rnr_err);
  for (Node* node : {&node_a, &node_b}) {
    outcome.bad_icrc += node->worker().counters().drop(transport::Drop::kBadIcrc);
  }
  if (const std::string leaks = simulation.Leaks(); !leaks.empty()) log.Violate(leaks);
  outcome.violation = log.violation;
  outcome.digest = log.digest;
  return outcome;
}

}  // namespace pollux::sim
