// What passes between the workers that share a port: frames, by rings with one core at each end.
#ifndef POLLUX_STACK_IO_STEERING_STEERING_RINGS_H_
#define POLLUX_STACK_IO_STEERING_STEERING_RINGS_H_

#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"

struct rte_ring;

namespace pollux::io {

// Made before the workers poll and destroyed after; each ring is then one pair of workers' alone.
class SteeringRings {
 public:
  // Frames that one worker may have lying before the others, together: half of a packet pool, so
  // that others who stand still do not leave it without buffers.
  static constexpr uint32_t kFramesUnderWay = 1024;

  // For `workers` (2 or more) on a port of `queues`: worker i has queue i, and those from `queues`
  // on have none. ResourceExhausted when DPDK has no memory.
  static absl::StatusOr<std::unique_ptr<SteeringRings>> Create(uint32_t workers, uint32_t queues);
  ~SteeringRings();
  SteeringRings(const SteeringRings&) = delete;
  SteeringRings& operator=(const SteeringRings&) = delete;

  uint32_t workers() const { return workers_; }
  uint32_t queues() const { return queues_; }
  bool HasQueue(uint32_t worker) const { return worker < queues_; }
  // Who sends for a worker without a queue.
  uint32_t CarrierOf(uint32_t worker) const { return worker % queues_; }

  // From one worker to another. Forward: what one with a queue has received for the other, or what
  // one without has to send, to its carrier; null between others. A frame stays its first worker's:
  // the other gives it back.
  rte_ring* forward(uint32_t from, uint32_t to) const { return At(forward_, from, to); }
  // Frames of `to`, which `from` is done with.
  rte_ring* back(uint32_t from, uint32_t to) const { return At(back_, from, to); }
  // The size of a forward ring, of which one place stays empty; a power of two.
  uint32_t size() const { return size_; }
  static constexpr uint32_t SizeFor(uint32_t workers) {
    return std::bit_floor(kFramesUnderWay / (workers - 1));
  }
  // So many times as large is a ring back: see Steering::TakeBack().
  static constexpr uint32_t kBackFactor = 4;

  // Frees every frame in them. After the last poll, before the pools go.
  void Clear();

 private:
  SteeringRings(uint32_t workers, uint32_t queues)
      : workers_(workers), queues_(queues), size_(SizeFor(workers)) {}
  rte_ring* At(const std::vector<rte_ring*>& rings, uint32_t from, uint32_t to) const {
    return rings[from * workers_ + to];
  }

  uint32_t workers_;
  uint32_t queues_;
  uint32_t size_;
  std::vector<rte_ring*> forward_;
  std::vector<rte_ring*> back_;
};

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_STEERING_STEERING_RINGS_H_
