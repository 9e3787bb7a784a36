// A simulated network in virtual time: ports connected by an Ethernet switch that loses,
// duplicates, reorders, corrupts and delays frames as determined by a seed.
#ifndef POLLUX_TESTS_SIM_FABRIC_H_
#define POLLUX_TESTS_SIM_FABRIC_H_

#include <rte_mbuf.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "stack/base/random.h"
#include "stack/base/types.h"
#include "stack/io/link/link.h"
#include "tests/sim/marked_queue.h"

namespace pollux::sim {

// The impairments of the network. Probabilities are per frame and receiver.
struct Conditions {
  double loss = 0;
  double duplication = 0;
  double reordering = 0;  // the frame is held back by up to reorder_delay_ns
  double corruption = 0;  // one to three bits of a copy are flipped; IP packets only
  uint64_t min_delay_ns = 1'000;
  // drawn for each frame, but frames between two ports stay in order
  uint64_t max_delay_ns = 5'000;
  uint64_t reorder_delay_ns = 50'000;
  uint64_t bits_per_second = 0;  // per port, for sending; 0: unlimited
};

// A third of the drawn networks is good, a third slightly bad, a third bad.
Conditions DrawConditions(Random& random);

struct FabricCounters {
  uint64_t sent = 0;  // by ports
  uint64_t delivered = 0;
  uint64_t lost = 0;
  uint64_t duplicated = 0;
  uint64_t reordered = 0;
  uint64_t corrupted = 0;
  uint64_t link_down = 0;       // sent by, or arrived at, a port that was down
  uint64_t queue_overflow = 0;  // see Fabric::kMaxQueued and MarkedQueueOptions
  uint64_t no_buffer = 0;       // no mbuf for a copy
};

class Fabric;

// One port of the switch. A frame that is not changed arrives in the sender's own mbuf, as with
// net_ring, so that a change of an mbuf after it was sent is noticed.
class FabricPort : public io::Link {
 public:
  ~FabricPort() override;
  FabricPort(const FabricPort&) = delete;
  FabricPort& operator=(const FabricPort&) = delete;

  uint16_t Receive(rte_mbuf** frames, uint16_t capacity, uint64_t now_ns) override;
  uint16_t Send(rte_mbuf** frames, uint16_t count, uint64_t now_ns) override;

  // While it is down, it does not send or receive; frames in flight to it are lost on arrival.
  void SetUp(bool up) { up_ = up; }
  const MacAddress& mac() const { return mac_; }
  uint32_t index() const { return index_; }  // in the order in which ports were added

  // Makes frames for this port wait in such a queue, one behind the other, until the switch sends
  // them. Without this call they do not delay each other.
  void SetQueue(const MarkedQueueOptions& options) { marked_.emplace(options); }
  MarkedQueue& queue() { return *marked_; }  // after SetQueue()

 private:
  friend class Fabric;
  FabricPort(Fabric* fabric, uint32_t index, const MacAddress& mac)
      : fabric_(fabric), index_(index), mac_(mac) {}

  Fabric* fabric_;
  uint32_t index_;
  MacAddress mac_;
  bool up_ = true;
  uint64_t busy_until_ns_ = 0;  // when the last bit of the latest frame is sent
  void PassQueue(uint64_t now_ns);
  uint64_t NextArrival() const;
  void Drain();

  // Frames in flight to this port, ordered by time of arrival and then of sending.
  std::multimap<uint64_t, rte_mbuf*> queue_;
  std::optional<MarkedQueue> marked_;
  // Frames in flight to that queue, with the sending port.
  std::multimap<uint64_t, std::pair<rte_mbuf*, uint32_t>> to_marked_;
  // For each sending port, the latest arrival time that was assigned in order.
  std::vector<uint64_t> in_order_ns_;
};

// Single-threaded, like the whole simulation. EAL must be initialised.
class Fabric {
 public:
  static constexpr size_t kMaxQueued = 4096;      // frames in flight to one port; more are lost
  static constexpr unsigned kCopyBuffers = 2047;  // duplicates and corrupted frames in flight

  // Everything that happens depends only on `seed`, the conditions and the sent frames.
  Fabric(uint64_t seed, const Conditions& conditions);
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  // The port exists as long as the fabric. Frames for `mac` are sent to it; frames for a multicast
  // address or an unknown one are sent to all ports except the sender.
  FabricPort* AddPort(const MacAddress& mac);
  void SetConditions(const Conditions& conditions) { conditions_ = conditions; }
  const Conditions& conditions() const { return conditions_; }

  // Called with every frame when it is sent, before it is impaired.
  using Tap = std::function<void(const FabricPort& from, const rte_mbuf& frame)>;
  void SetTap(Tap tap) { tap_ = std::move(tap); }

  // The time at which the next frame arrives anywhere; UINT64_MAX if none is in flight.
  uint64_t NextArrival() const;
  // Frees the frames in flight. Call it before the pools of these frames are destroyed.
  void Drain();
  const FabricCounters& counters() const { return counters_; }
  // The number of copies that are not freed yet, including those in flight.
  unsigned copies_in_use() const;

 private:
  friend class FabricPort;
  void Switch(FabricPort& from, rte_mbuf* frame, uint64_t now_ns);
  // Deliver() and Enqueue() take one reference to `frame`.
  static bool IsIp(const rte_mbuf& frame);
  void Deliver(FabricPort& from, FabricPort& to, rte_mbuf* frame, uint64_t now_ns);
  void Enqueue(FabricPort& from, FabricPort& to, rte_mbuf* frame, uint64_t arrival_ns);
  rte_mbuf* Copy(rte_mbuf* frame);

  Conditions conditions_;
  Random random_;
  rte_mempool* copies_;
  std::vector<std::unique_ptr<FabricPort>> ports_;
  FabricCounters counters_;
  Tap tap_;
};

}  // namespace pollux::sim

#endif  // POLLUX_TESTS_SIM_FABRIC_H_
