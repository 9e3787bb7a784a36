// Nodes on a simulated network in virtual time. They run the production code on one thread; only
// link, clock and random numbers differ, and these are determined by one seed.
#ifndef POLLUX_TESTS_SIM_SIMULATION_H_
#define POLLUX_TESTS_SIM_SIMULATION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "stack/base/random.h"
#include "stack/base/types.h"
#include "stack/engine/loop/worker.h"
#include "stack/io/steering/steering.h"
#include "stack/ip/interface.h"
#include "tests/sim/fabric.h"

namespace pollux::sim {

struct NodeOptions {
  uint16_t mtu = 4300;  // path MTU 4096
  uint32_t packet_buffers = 2047;
  uint32_t max_queue_pairs = 1024;
  uint32_t max_regions = 4096;
  // The worker is the second of two that share the host's port, and has no queue of the port. The
  // first worker only receives and sends for it.
  bool behind_ring = false;
  bool ipv6 = false;  // has an IPv6 address instead of an IPv4 one
};

// A host: one worker, one interface, one port. Addresses start at 198.18.0.1 or 2001:db8::1, in
// order of creation.
class Node {
 public:
  ~Node();
  engine::Worker& worker() { return *worker_; }
  ip::Interface& interface() { return *interface_; }
  FabricPort& port() { return *port_; }
  uint32_t address() const {
    return interface_->config().addresses[0].address.Ipv4();
  }  // IPv4, host order
  Gid gid() const { return interface_->config().addresses[0].address; }

  // Advances this host's own clock, with which its worker is polled. It runs at the speed of the
  // simulation's clock, ahead by the sum of its jumps.
  void JumpClock(uint64_t ahead_ns) { clock_ahead_ns_ += ahead_ns; }
  // Stops the clock while the host continues to run. StartClock() then sets it to the time that it
  // would have reached.
  void StopClock();
  void StartClock() { clock_stopped_ = false; }

 private:
  friend class Simulation;
  // The worker's view of the port: frames use the simulation's time, not the host's clock.
  class Wire : public io::Link {
   public:
    Wire(FabricPort* port, const uint64_t* now_ns) : port_(port), now_ns_(now_ns) {}
    uint16_t Receive(rte_mbuf** frames, uint16_t capacity, uint64_t) override {
      return port_->Receive(frames, capacity, *now_ns_);
    }
    uint16_t Send(rte_mbuf** frames, uint16_t count, uint64_t) override {
      return port_->Send(frames, count, *now_ns_);
    }

   private:
    FabricPort* port_;
    const uint64_t* now_ns_;
  };

  Node() = default;
  uint64_t ClockNs(uint64_t simulation_ns) const;
  // The time at which the simulation must poll the node for a timer.
  uint64_t NextDeadline() const;
  bool Poll(uint64_t simulation_ns);
  // Frees the frames that the host holds, of whatever pool. The node must not be polled afterwards.
  void DropWhatWaits();
  // The number of buffers that are missing in the pools of its workers.
  unsigned CountMissing() const;

  uint64_t clock_ahead_ns_ = 0;
  bool clock_stopped_ = false;
  uint64_t clock_stopped_at_ns_ = 0;
  FabricPort* port_ = nullptr;
  std::unique_ptr<Wire> wire_;
  // For a worker behind a ring: the other worker of the host, which has the queue.
  struct First {
    std::unique_ptr<engine::Worker> worker;
    std::unique_ptr<ip::Interface> interface;
    std::unique_ptr<io::Steering> steering;
  };
  std::unique_ptr<io::SteeringRings> rings_;
  std::optional<First> first_;
  std::unique_ptr<engine::Worker> worker_;
  // Destroyed before the worker, because it may hold frames of the worker's pool.
  std::unique_ptr<io::Steering> steering_;
  std::unique_ptr<ip::Interface> interface_;
};

class Simulation {
 public:
  static constexpr uint64_t kStartNs = 1'000'000'000;
  static constexpr uint64_t kSecond = 1'000'000'000;

  // EAL must be initialised. Everything that happens depends only on `seed`, the conditions and the
  // test's actions.
  Simulation(uint64_t seed, const Conditions& conditions);
  ~Simulation();

  // The node exists as long as the simulation.
  Node& AddNode(const NodeOptions& options = {});

  uint64_t now_ns() const { return now_ns_; }
  Fabric& fabric() { return fabric_; }
  // Random numbers for the test itself.
  Random& random() { return random_; }

  // Polls all workers and advances time from event to event until `done()` returns true (checked
  // after each round of polls), `deadline_ns` is reached, or nothing is left to happen. Returns
  // whether `done()` returned true.
  bool RunUntil(absl::FunctionRef<bool()> done, uint64_t deadline_ns);
  // Runs for `duration_ns` of virtual time.
  void RunFor(uint64_t duration_ns);

  // Frees the frames in flight, and describes buffers that were not returned to their pools; empty
  // if there are none. The simulation cannot be run afterwards.
  std::string Leaks();

 private:
  // rounds of polls at one moment; then time advances anyway
  static constexpr int kMaxRounds = 10'000;

  bool PollOnce();
  std::unique_ptr<engine::Worker> MakeWorker(const NodeOptions& options, uint32_t index);
  void ShareThePort(Node& node, ip::InterfaceConfig interface, const NodeOptions& options);

  Random random_;
  Fabric fabric_;
  uint64_t now_ns_ = kStartNs;
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace pollux::sim

#endif  // POLLUX_TESTS_SIM_SIMULATION_H_
