#include "tests/sim/simulation.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace pollux::sim {
namespace {

constexpr uint32_t kNetwork = 0xC6120000;  // 198.18.0.0/16: more hosts than any table remembers
constexpr uint8_t kPrefixLength = 16;

}  // namespace

Node::~Node() = default;

void Node::StopClock() {
  clock_stopped_at_ns_ = worker_->now_ns();
  clock_stopped_ = true;
}

uint64_t Node::ClockNs(uint64_t simulation_ns) const {
  return clock_stopped_ ? clock_stopped_at_ns_ : simulation_ns + clock_ahead_ns_;
}

uint64_t Node::NextDeadline() const {
  const uint64_t deadline_ns = worker_->NextDeadline();
  if (clock_stopped_ || deadline_ns == UINT64_MAX) return UINT64_MAX;
  return deadline_ns - std::min(deadline_ns, clock_ahead_ns_);
}

Simulation::Simulation(uint64_t seed, const Conditions& conditions)
    : random_(seed), fabric_(random_.Next64(), conditions) {}

Simulation::~Simulation() { fabric_.Drain(); }

Node& Simulation::AddNode(const NodeOptions& options) {
  const auto number = static_cast<uint32_t>(nodes_.size() + 1);
  std::unique_ptr<Node> node(new Node());

  engine::WorkerConfig config;
  config.max_queue_pairs = options.max_queue_pairs;
  config.max_regions = options.max_regions;
  config.packet_buffers = options.packet_buffers;
  config.start_ns = now_ns_;
  for (uint8_t& byte : config.seed) byte = static_cast<uint8_t>(random_.Next32());
  absl::StatusOr<std::unique_ptr<engine::Worker>> worker = engine::Worker::Create(config);
  if (!worker.ok()) {
    std::fprintf(stderr, "simulation: %s\n", worker.status().ToString().c_str());
    std::abort();
  }
  node->worker_ = *std::move(worker);

  net::InterfaceConfig interface;
  interface.mac = {2, 0, 0, 0, static_cast<uint8_t>(number >> 8), static_cast<uint8_t>(number)};
  interface.addresses = {net::InterfaceAddress::Ipv4(kNetwork + number, kPrefixLength)};
  interface.mtu = options.mtu;
  node->interface_ = std::make_unique<net::Interface>(interface);
  node->port_ = fabric_.AddPort(interface.mac);
  node->wire_ = std::make_unique<Node::Wire>(node->port_, &now_ns_);
  node->worker_->AddPort(node->interface_.get(), node->wire_.get());
  nodes_.push_back(std::move(node));
  return *nodes_.back();
}

bool Simulation::PollOnce() {
  bool worked = false;
  for (auto& node : nodes_) worked |= node->worker().Poll(node->ClockNs(now_ns_));
  return worked;
}

bool Simulation::RunUntil(absl::FunctionRef<bool()> done, uint64_t deadline_ns) {
  while (true) {
    for (int round = 0; round < kMaxRounds; ++round) {
      const bool worked = PollOnce();
      if (done()) return true;
      if (!worked) break;
    }
    uint64_t next = fabric_.NextArrival();
    for (auto& node : nodes_) next = std::min(next, node->NextDeadline());
    if (next > deadline_ns) {
      now_ns_ = std::max(now_ns_, deadline_ns);
      // Nodes have no other clock: what looks at the time sees that it has passed.
      PollOnce();
      return done();
    }
    now_ns_ = std::max(next, now_ns_ + 1);
  }
}

void Simulation::RunFor(uint64_t duration_ns) {
  RunUntil([] { return false; }, now_ns_ + duration_ns);
}

std::string Simulation::Leaks() {
  fabric_.Drain();
  std::string leaks;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    // With what it holds for neighbours that did not answer.
    nodes_[i]->interface_.reset();
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const unsigned missing = rte_mempool_in_use_count(nodes_[i]->worker().packet_pool());
    if (missing > 0) absl::StrAppendFormat(&leaks, "node %d: %u buffers; ", i + 1, missing);
  }
  if (fabric_.copies_in_use() > 0) {
    absl::StrAppendFormat(&leaks, "fabric: %u copies; ", fabric_.copies_in_use());
  }
  return leaks;
}

}  // namespace pollux::sim
