// The output queue of a port of a simulated switch: a bottleneck that marks packets when it grows.
#ifndef POLLUX_TESTS_SIM_MARKED_QUEUE_H_
#define POLLUX_TESTS_SIM_MARKED_QUEUE_H_

#include <rte_mbuf.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "stack/base/random.h"

namespace pollux::sim {

// Marks by the current length as in DCQCN's paper (Zhu et al., SIGCOMM 2015, section 5): no packets
// below `min_bytes`, all above `max_bytes`, and in between with a probability that rises to
// `max_probability`.
struct MarkedQueueOptions {
  uint64_t bits_per_second = 40'000'000'000;
  uint32_t min_bytes = 5'000;
  uint32_t max_bytes = 200'000;
  double max_probability = 0.01;
  uint32_t capacity_bytes = 4'000'000;  // frames that do not fit are lost
};

struct MarkedQueueCounters {
  uint64_t bytes = 0;                // of frames that were not lost
  uint64_t marked = 0;               // frames
  uint64_t lost = 0;                 // frames
  uint64_t longest_bytes = 0;        // the longest queue that a frame has found
  std::vector<uint64_t> bytes_from;  // bytes by sending port
};

class MarkedQueue {
 public:
  explicit MarkedQueue(const MarkedQueueOptions& options) : options_(options) {}

  // Handles the arrival of a frame from port number `from`; calls must be in order of time. Returns
  // the time at which its last bit is sent, or nothing if it is lost. Marks the frame if that is
  // due and the packet is ECN-capable. The caller keeps the frame, which must be writable and in
  // one segment.
  std::optional<uint64_t> Pass(rte_mbuf* frame, uint32_t from, uint64_t now_ns, Random& random);

  const MarkedQueueCounters& counters() const { return counters_; }
  // Sets the counters to 0.
  void ResetCounters();

 private:
  bool IsMarked(uint64_t waiting_bytes, Random& random) const;

  MarkedQueueOptions options_;
  MarkedQueueCounters counters_;
  uint64_t busy_until_ns_ = 0;
};

// Sets the CE mark of an ECN-capable IPv4 or IPv6 packet. Returns false, and changes nothing, for
// other packets.
bool SetCongestionExperienced(rte_mbuf* frame);

}  // namespace pollux::sim

#endif  // POLLUX_TESTS_SIM_MARKED_QUEUE_H_
