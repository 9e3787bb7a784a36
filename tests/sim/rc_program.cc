#include "tests/sim/rc_program.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "stack/wire/roce_packet.h"
#include "tests/sim/connect.h"
#include "tests/sim/rc_operation.h"
#include "tests/sim/rc_side.h"
#include "tests/sim/simulation.h"

namespace pollux::sim {
namespace {

uint64_t Sum(Node& a, Node& b, uint64_t transport::Counters::*counter) {
  return a.worker().counters().*counter + b.worker().counters().*counter;
}

class RcProgram {
 public:
  RcProgram(uint64_t seed, bool behind_rings)
      : random_(seed), simulation_(random_.Next64(), DrawConditions(random_)) {
    NodeOptions options = kOptions;
    options.behind_ring = behind_rings;
    options.ipv6 = random_.Chance(0.3);
    const bool limits_rates = random_.Chance(0.3);
    for (Node*& node : nodes_) {
      node = &simulation_.AddNode(options);
      if (limits_rates) LimitRates(random_, *node);
    }
    simulation_.fabric().SetTap([this](const FabricPort& from, const rte_mbuf& frame) {
      wire::RocePacket packet;
      if (wire::ParseRocePacket(rte_pktmbuf_mtod(&frame, const uint8_t*), frame.data_len,
                                &packet) == wire::ParseResult::kOk) {
        OnPacket(from, packet);
      }
    });
  }

  void Run() {
    MakeConnections();
    Disturb();
    if (!RunUntilFinished(600 * Simulation::kSecond)) {
      std::string progress;
      for (const auto& side : sides_) absl::StrAppend(&progress, side->Progress(), "; ");
      log_.Violate(absl::StrCat("the program does not end; ", progress));
    }
    // What is still on its way must not be taken for new.
    simulation_.RunFor(2 * Simulation::kSecond);
    if (log_.violation.empty()) UseStaleKey();
    for (const auto& side : sides_) side->Finish();
    simulation_.RunFor(Simulation::kSecond);
  }

  RcOutcome Outcome() {
    RcOutcome outcome;
    Node &a = *nodes_[0], &b = *nodes_[1];
    outcome.retransmitted_pkts = Sum(a, b, &transport::Counters::retransmitted_pkts);
    outcome.rnr_naks = Sum(a, b, &transport::Counters::rcvd_rnr_err);
    outcome.cnps = Sum(a, b, &transport::Counters::rp_cnp_handled);
    for (const auto& side : sides_) outcome.drained += side->drained();
    for (Node* node : nodes_) {
      outcome.bad_icrc += node->worker().counters().drop(transport::Drop::kBadIcrc);
    }
    if (const std::string leaks = simulation_.Leaks(); !leaks.empty()) log_.Violate(leaks);
    outcome.violation = log_.violation;
    outcome.digest = log_.digest;
    return outcome;
  }

 private:
  static constexpr NodeOptions kOptions = {
      .packet_buffers = 1023, .max_queue_pairs = 16, .max_regions = 512};

  // Most programs have one connection; the sides of some share their hosts with others.
  void MakeConnections() {
    const uint64_t count = random_.Chance(0.7) ? 1 : 2 + random_.Below(4);
    const auto most = static_cast<int>(40 / count);
    const uint32_t max_length = 1u << (8 + random_.Below(9));  // 64 KiB at most
    if (!FindEachOther(simulation_, *nodes_[0], *nodes_[1])) {
      log_.Violate("the hosts do not find each other");
    }
    for (uint64_t i = 0; i < count; ++i) {
      RcSide& a = AddSide(absl::StrCat("a", i), 0);
      RcSide& b = AddSide(absl::StrCat("b", i), 1);
      RcSequences sequences =
          DrawRcSequences(random_, 1 + static_cast<int>(random_.Below(most)),
                          1 + static_cast<int>(random_.Below(most)), max_length);
      a.Take(std::move(sequences.a));
      b.Take(std::move(sequences.b));
      a.LayOut(b);
      b.LayOut(a);
      const uint32_t depth = 2 + static_cast<uint32_t>(random_.Below(30));
      const ibv_qp_attr attr = DrawAttributes(random_);
      for (RcSide* side : {&a, &b}) {
        side->SetFirst(DrawPsn(random_), DrawPsn(random_));
        side->Create(depth);
      }
      for (RcSide* side : {&a, &b}) side->Connect(attr);
    }
  }

  // Sides alternate between the hosts, in the order of their ports.
  void OnPacket(const FabricPort& from, const wire::RocePacket& packet) {
    for (size_t i = 0; i < sides_.size(); ++i) {
      if (i % 2 != from.index() && sides_[i]->Has(packet.bth.dest_qpn)) {
        sides_[i]->CheckResponse(packet);
      }
    }
  }

  RcSide& AddSide(const std::string& name, int node) {
    sides_.push_back(std::make_unique<RcSide>(
        name, *nodes_[node], static_cast<unsigned>(sides_.size()), random_.Next64(), &log_));
    return *sides_.back();
  }

  // Things that connections live through: together they take less than all retries.
  void Disturb() {
    for (uint64_t times = random_.Below(4); times > 0; --times) {
      if (RunUntilFinished(1 + random_.Below(10'000'000))) return;
      Node& node = *nodes_[random_.Below(2)];
      switch (random_.Below(3)) {
        case 0:  // a cable is pulled
          node.port().SetUp(false);
          RunUntilFinished(1 + random_.Below(30'000'000));
          node.port().SetUp(true);
          break;
        case 1:  // from a millisecond to minutes
          node.JumpClock(1'000'000 + random_.Below(1'000'000ull << random_.Below(19)));
          break;
        default:
          node.StopClock();
          RunUntilFinished(1 + random_.Below(100'000'000));
          node.StartClock();
      }
    }
  }

  void UseStaleKey() {
    RcSide &a = *sides_[0], &b = *sides_[1];
    a.PostStale(b.MakeStaleKey(), b.target_address());
    if (!RunUntil([&] { return a.stale_finished(); }, 600 * Simulation::kSecond)) {
      log_.Violate("the WRITE by a stale key does not end");
    }
    simulation_.RunFor(Simulation::kSecond);
  }

  // Or until something is wrong.
  bool RunUntil(absl::FunctionRef<bool()> done, uint64_t duration_ns) {
    return simulation_.RunUntil([&] { return !log_.violation.empty() || done(); },
                                simulation_.now_ns() + duration_ns);
  }
  bool RunUntilFinished(uint64_t duration_ns) {
    const auto finished = [](const auto& side) { return side->finished(); };
    return RunUntil([&] { return std::all_of(sides_.begin(), sides_.end(), finished); },
                    duration_ns);
  }

  Random random_;
  Simulation simulation_;
  Node* nodes_[2];
  Log log_;
  std::vector<std::unique_ptr<RcSide>> sides_;  // in pairs that are connected
};

}  // namespace

RcOutcome RunRcProgram(uint64_t seed, bool behind_rings) {
  RcProgram program(seed, behind_rings);
  program.Run();
  return program.Outcome();
}

}  // namespace pollux::sim
