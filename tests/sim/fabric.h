// A simulated network: ports joined by an Ethernet switch that loses, doubles, reorders, corrupts
// and delays frames as a seed says, in virtual time.
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

// What the network does to frames. Probabilities are per frame and receiver.
struct Conditions {
  double loss = 0;
  double duplication = 0;
  double reordering = 0;  // the frame is held back by up to reorder_delay_ns
  double corruption = 0;  // one to three bits of a copy are flipped; IP packets only
  uint64_t min_delay_ns = 1'000;
  uint64_t max_delay_ns = 5'000;  // each frame its own, but frames between two ports stay in order
  uint64_t reorder_delay_ns = 50'000;
  uint64_t bits_per_second = 0;  // of each port, outwards; 0: unlimited
};

// A third of all networks is good, a third a little bad, a third bad.
Conditions DrawConditions(Random& random);

struct FabricCounters {
  uint64_t sent = 0;  // by ports
  uint64_t delivered = 0;
  uint64_t lost = 0;
  uint64_t duplicated = 0;
  uint64_t reordered = 0;
  uint64_t corrupted = 0;
  uint64_t link_down = 0;       // sent into, or arrived at, a port that was down
  uint64_t queue_overflow = 0;  // see Fabric::kMaxQueued and MarkedQueueOptions
  uint64_t no_buffer = 0;       // no mbuf for a copy
};

class Fabric;

// One port of the switch. Where nothing is to be changed the sender's own mbuf is what arrives, as
// with net_ring: an mbuf touched after it was sent is seen.
class FabricPort : public io::Link {
 public:
  ~FabricPort() override;
  FabricPort(const FabricPort&) = delete;
  FabricPort& operator=(const FabricPort&) = delete;

  uint16_t Receive(rte_mbuf** frames, uint16_t capacity, uint64_t now_ns) override;
  uint16_t Send(rte_mbuf** frames, uint16_t count, uint64_t now_ns) override;

  // While it is down nothing leaves or arrives; what was on its way is lost on arrival.
  void SetUp(bool up) { up_ = up; }
  const MacAddress& mac() const { return mac_; }
  uint32_t index() const { return index_; }  // of the order in which ports were added

  // Frames for this port wait in such a queue, behind each other, for the switch to send them.
  // Without one they do not meet.
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
  uint64_t busy_until_ns_ = 0;  // when the last bit of the latest frame has left
  void PassQueue(uint64_t now_ns);
  uint64_t NextArrival() const;
  void Drain();

  // Frames on their way to this port: by time of arrival, then in the order sent.
  std::multimap<uint64_t, rte_mbuf*> queue_;
  std::optional<MarkedQueue> marked_;
  // On their way to that queue, with the sending port.
  std::multimap<uint64_t, std::pair<rte_mbuf*, uint32_t>> to_marked_;
  // The latest arrival that keeps the order, by sending port.
  std::vector<uint64_t> in_order_ns_;
};

// Single-threaded, as all of a simulation. EAL must be initialised.
class Fabric {
 public:
  static constexpr size_t kMaxQueued = 4096;      // frames on the way to one port; more are lost
  static constexpr unsigned kCopyBuffers = 2047;  // duplicates and corrupted frames under way

  // All that happens depends on `seed`, the conditions and what is sent alone.
  Fabric(uint64_t seed, const Conditions& conditions);
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  // The port lives as long as the fabric. Frames for `mac` go to it; frames for a multicast address
  // or one that no port has go to all but the sender.
  FabricPort* AddPort(const MacAddress& mac);
  void SetConditions(const Conditions& conditions) { conditions_ = conditions; }
  const Conditions& conditions() const { return conditions_; }

  // Shown every frame as it is sent, before anything happens to it.
  using Tap = std::function<void(const FabricPort& from, const rte_mbuf& frame)>;
  void SetTap(Tap tap) { tap_ = std::move(tap); }

  // When the next frame arrives anywhere; UINT64_MAX when none is on its way.
  uint64_t NextArrival() const;
  // Frees what is on its way: before the pools go that it came from.
  void Drain();
  const FabricCounters& counters() const { return counters_; }
  // Copies that nobody has freed yet, those on their way included.
  unsigned copies_in_use() const;

 private:
  friend class FabricPort;
  void Switch(FabricPort& from, rte_mbuf* frame, uint64_t now_ns);
  // Takes over one reference of `frame`.
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
