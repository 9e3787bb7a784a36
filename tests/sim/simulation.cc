#include "tests/sim/simulation.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "stack/base/byte_order.h"

namespace pollux::sim {
namespace {

constexpr uint32_t kNetwork = 0xC6120000;  // 198.18.0.0/16: more hosts than any table remembers
constexpr uint8_t kPrefixLength = 16;

InterfaceAddress Ipv6Address(uint32_t number) {
  Gid address{{0x20, 0x01, 0x0D, 0xB8}};
  StoreBe32(&address.raw[12], number);
  return {.address = address};
}

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
  uint64_t deadline_ns = worker_->NextDeadline();
  if (first_) deadline_ns = std::min(deadline_ns, first_->worker->NextDeadline());
  if (clock_stopped_ || deadline_ns == UINT64_MAX) return UINT64_MAX;
  return deadline_ns - std::min(deadline_ns, clock_ahead_ns_);
}

bool Node::Poll(uint64_t simulation_ns) {
  const bool first_worked = first_ && first_->worker->Poll(ClockNs(simulation_ns));
  return worker_->Poll(ClockNs(simulation_ns)) || first_worked;
}

void Node::DropWhatWaits() {
  // With what they hold for neighbours that did not answer.
  interface_.reset();
  if (!first_) return;
  first_->interface.reset();
  first_->steering->Clear();
  rings_->Clear();
}

unsigned Node::CountMissing() const {
  const unsigned own = rte_mempool_in_use_count(worker_->packet_pool());
  return first_ ? own + rte_mempool_in_use_count(first_->worker->packet_pool()) : own;
}

Simulation::Simulation(uint64_t seed, const Conditions& conditions)
    : random_(seed), fabric_(random_.Next64(), conditions) {}

Simulation::~Simulation() { fabric_.Drain(); }

std::unique_ptr<engine::Worker> Simulation::MakeWorker(const NodeOptions& options, uint32_t index) {
  engine::WorkerConfig config;
  config.index = index;
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
  return *std::move(worker);
}

// Between the wire and the node's worker, which does not answer for their addresses.
void Simulation::ShareThePort(Node& node, ip::InterfaceConfig interface,
                              const NodeOptions& options) {
  constexpr uint32_t kWorkers = 2;
  const io::RxClassifier classifier{.workers = kWorkers};
  node.rings_ = io::SteeringRings::Create(kWorkers, /*queues=*/1).value();
  Node::First& first = node.first_.emplace();
  first.worker = MakeWorker(options, 0);
  interface.answers = true;
  first.interface = std::make_unique<ip::Interface>(interface);
  first.steering = std::make_unique<io::Steering>(classifier, 0, node.wire_.get(),
                                                  first.worker->packet_pool(), node.rings_.get());
  first.worker->AddPort(first.interface.get(), first.steering.get(), "", first.steering.get());
  node.steering_ = std::make_unique<io::Steering>(classifier, 1, nullptr,
                                                  node.worker_->packet_pool(), node.rings_.get());
}

Node& Simulation::AddNode(const NodeOptions& options) {
  const auto number = static_cast<uint32_t>(nodes_.size() + 1);
  std::unique_ptr<Node> node(new Node());
  node->worker_ = MakeWorker(options, options.behind_ring ? 1 : 0);

  ip::InterfaceConfig interface;
  interface.mac = {2, 0, 0, 0, static_cast<uint8_t>(number >> 8), static_cast<uint8_t>(number)};
  interface.addresses = {options.ipv6 ? Ipv6Address(number)
                                      : InterfaceAddress::Ipv4(kNetwork + number, kPrefixLength)};
  interface.mtu = options.mtu;
  interface.answers = !options.behind_ring;
  node->interface_ = std::make_unique<ip::Interface>(interface);
  node->port_ = fabric_.AddPort(interface.mac);
  node->wire_ = std::make_unique<Node::Wire>(node->port_, &now_ns_);
  io::Link* link = node->wire_.get();
  if (options.behind_ring) {
    ShareThePort(*node, interface, options);
    link = node->steering_.get();
  }
  node->worker_->AddPort(node->interface_.get(), link, "", node->steering_.get());
  nodes_.push_back(std::move(node));
  return *nodes_.back();
}

bool Simulation::PollOnce() {
  bool worked = false;
  for (auto& node : nodes_) worked |= node->Poll(now_ns_);
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
  RunFor(0);  // what the last calls have left to be sent goes on its way
  fabric_.Drain();
  std::string leaks;
  for (auto& node : nodes_) node->DropWhatWaits();
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const unsigned missing = nodes_[i]->CountMissing();
    if (missing > 0) absl::StrAppendFormat(&leaks, "node %d: %u buffers; ", i + 1, missing);
  }
  if (fabric_.copies_in_use() > 0) {
    absl::StrAppendFormat(&leaks, "fabric: %u copies; ", fabric_.copies_in_use());
  }
  return leaks;
}

}  // namespace pollux::sim
