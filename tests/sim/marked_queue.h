// The queue in front of a port of a simulated switch: a bottleneck that marks packets when it
// grows.
#ifndef POLLUX_TESTS_SIM_MARKED_QUEUE_H_
#define POLLUX_TESTS_SIM_MARKED_QUEUE_H_

#include <rte_mbuf.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "stack/base/random.h"

namespace pollux::sim {

// Marks by the present length as in DCQCN's paper (Zhu et al., SIGCOMM 2015, section 5): nothing
// below `min_bytes`, from there with a probability that rises to `max_probability` at `max_bytes`,
// everything beyond.
struct MarkedQueueOptions {
  uint64_t bits_per_second = 40'000'000'000;
  uint32_t min_bytes = 5'000;
  uint32_t max_bytes = 200'000;
  double max_probability = 0.01;
  uint32_t capacity_bytes = 4'000'000;  // what does not fit is lost
};

struct MarkedQueueCounters {
  uint64_t bytes = 0;                // of frames that passed
  uint64_t marked = 0;               // frames
  uint64_t lost = 0;                 // frames
  uint64_t longest_bytes = 0;        // that a frame found before it
  std::vector<uint64_t> bytes_from;  // that passed, by sending port
};

class MarkedQueue {
 public:
  explicit MarkedQueue(const MarkedQueueOptions& options) : options_(options) {}

  // A frame that port number `from` sent arrives: in the order of time. Returns when its last bit
  // has left, marked where that is due and the packet is ECN-capable; nothing when it is lost. The
  // frame stays the caller's, is writable and in one piece.
  std::optional<uint64_t> Pass(rte_mbuf* frame, uint32_t from, uint64_t now_ns, Random& random);

  const MarkedQueueCounters& counters() const { return counters_; }
  // As of now: what was counted before is forgotten.
  void ResetCounters();

 private:
  bool IsMarked(uint64_t waiting_bytes, Random& random) const;

  MarkedQueueOptions options_;
  MarkedQueueCounters counters_;
  uint64_t busy_until_ns_ = 0;
};

// Sets the CE mark of an ECN-capable IPv4 or IPv6 packet; false, and nothing changes, of others.
bool SetCongestionExperienced(rte_mbuf* frame);

}  // namespace pollux::sim

#endif  // POLLUX_TESTS_SIM_MARKED_QUEUE_H_
