// Passes frames between the workers that share a port, by rings with one core at each end.
#ifndef POLLUX_STACK_IO_STEERING_STEERING_RINGS_H_
#define POLLUX_STACK_IO_STEERING_STEERING_RINGS_H_

#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"

struct rte_ring;

namespace pollux::io {

// Created before the workers poll and destroyed afterwards; in between each ring is used by one
// pair of workers only.
class SteeringRings {
 public:
  // The most frames of one worker that may wait at all other workers together: half of a packet
  // pool, so that stalled workers do not leave it without buffers.
  static constexpr uint32_t kFramesUnderWay = 1024;

  // For `workers` (2 or more) on a port with `queues` queues: worker i has queue i, and workers
  // from `queues` on have none. Returns ResourceExhausted if DPDK has no memory.
  static absl::StatusOr<std::unique_ptr<SteeringRings>> Create(uint32_t workers, uint32_t queues);
  ~SteeringRings();
  SteeringRings(const SteeringRings&) = delete;
  SteeringRings& operator=(const SteeringRings&) = delete;

  uint32_t workers() const { return workers_; }
  uint32_t queues() const { return queues_; }
  bool HasQueue(uint32_t worker) const { return worker < queues_; }
  // The worker that sends for a worker without a queue.
  uint32_t CarrierOf(uint32_t worker) const { return worker % queues_; }

  // Frames from one worker to another. A worker with a queue puts in what it received for the other
  // worker; one without a queue puts in what it wants to send, to its carrier. Null for all other
  // pairs. A frame still belongs to `from`, to which the other worker returns it.
  rte_ring* forward(uint32_t from, uint32_t to) const { return At(forward_, from, to); }
  // Frames of `to` that `from` no longer needs.
  rte_ring* back(uint32_t from, uint32_t to) const { return At(back_, from, to); }
  // The size of a forward ring, of which one slot stays empty; a power of two.
  uint32_t size() const { return size_; }
  static constexpr uint32_t SizeFor(uint32_t workers) {
    return std::bit_floor(kFramesUnderWay / (workers - 1));
  }
  // A back ring is this many times as large as a forward ring: see Steering::TakeBack().
  static constexpr uint32_t kBackFactor = 4;

  // Frees every frame in the rings. Call it after the last poll, before the packet pools are
  // destroyed.
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
