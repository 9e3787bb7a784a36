// A worker's link where several workers share a port: it keeps what is the worker's and hands the
// rest to its owners.
#ifndef POLLUX_STACK_IO_STEERING_STEERING_H_
#define POLLUX_STACK_IO_STEERING_STEERING_H_

#include <array>
#include <cstdint>
#include <vector>

#include "stack/io/link/link.h"
#include "stack/io/steering/rx_destination.h"
#include "stack/io/steering/steering_rings.h"

struct rte_mempool;
struct rte_ring;

namespace pollux::io {

// In frames. Written on the worker's core.
struct SteeringCounters {
  uint64_t received = 0;      // from the port
  uint64_t kept = 0;          // of those, for this worker
  uint64_t handed_over = 0;   // to other workers, copies included
  uint64_t ring_full = 0;     // lost instead: the owner was behind
  uint64_t by_ring = 0;       // received from other workers
  uint64_t sent_by_ring = 0;  // given to the worker that sends for this one
  uint64_t carried = 0;       // sent for others
  uint64_t no_buffer = 0;     // lost: no buffer for a copy
};

// Sits upon all other layers of the worker's queue (loopback, capture, impairment). A worker
// without a queue receives by rings alone, and sends by the queue of another.
//
// A frame is given back where it came from: what a worker has received from another it frees by
// Free(), which takes it home by a ring. Packet pools are therefore used by one core each, without
// an atomic read-modify-write between two.
class alignas(64) Steering final : public Link {
 public:
  static constexpr uint16_t kBurst = 32;

  // Of worker `index`. `link` is its queue, null where it has none (SteeringRings::HasQueue());
  // `pool` its packets'. None is owned, all outlive this.
  Steering(const RxClassifier& classifier, uint32_t index, Link* link, rte_mempool* pool,
           SteeringRings* rings);
  ~Steering() override { Clear(); }
  Steering(const Steering&) = delete;
  Steering& operator=(const Steering&) = delete;

  // Frames that are not RoCE are of this worker's pool, or of its own queue, and may be kept; RoCE
  // frames go back by Free() before the next call.
  uint16_t Receive(rte_mbuf** frames, uint16_t capacity, uint64_t now_ns) override;
  uint16_t Send(rte_mbuf** frames, uint16_t count, uint64_t now_ns) override;
  // `count` frames that Receive() gave.
  void Free(rte_mbuf** frames, unsigned count);

  // Whether the last Receive() moved anything between workers: its caller is not idle then.
  bool moved() const { return moved_; }
  const SteeringCounters& counters() const { return counters_; }
  // Frees the frames kept here. For the end, before the pools go.
  void Clear();

 private:
  // A received frame bears in its mbuf (hash.usr) whose it is to free, and in a ring this.
  static constexpr uint32_t kNotRoce = 1u << 31;
  // What is gathered for another worker while a burst is looked at.
  struct alignas(64) Outbox {
    uint16_t count = 0;
    std::array<rte_mbuf*, kBurst> frames;
  };

  void TakeBack();
  void Carry(uint64_t now_ns);
  void CarryFrom(uint32_t client);
  void SendCarried(uint64_t now_ns);
  uint16_t TakeFromRings(rte_mbuf** frames, uint16_t capacity);
  uint16_t TakeFromLink(rte_mbuf** frames, uint16_t capacity, uint64_t now_ns);
  bool Place(rte_mbuf* frame);
  void CopyToOthers(const rte_mbuf* frame, bool is_roce);
  void PutOut(uint32_t worker, rte_mbuf* frame, bool is_roce);
  void EmptyOutboxes();
  void GiveBack(uint32_t owner, rte_mbuf** frames, unsigned count);

  RxClassifier classifier_;
  uint32_t index_;
  Link* link_;
  rte_mempool* pool_;
  SteeringRings* rings_;
  uint32_t turn_ = 0;  // whose ring is looked at first
  bool moved_ = false;
  SteeringCounters counters_;
  uint16_t carried_count_ = 0;
  std::array<rte_mbuf*, kBurst> carried_;  // copies that the link is still to take
  std::vector<Outbox> outboxes_;           // one for each worker
};

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_STEERING_STEERING_H_
