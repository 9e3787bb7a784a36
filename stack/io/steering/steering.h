// A worker's link if several workers share a port: it keeps the worker's frames and passes the
// others to their owners.
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
  uint64_t kept = 0;          // of those, the ones for this worker
  uint64_t handed_over = 0;   // to other workers, copies included
  uint64_t ring_full = 0;     // dropped instead: the owner was too slow
  uint64_t by_ring = 0;       // received from other workers
  uint64_t sent_by_ring = 0;  // passed to the worker that sends for this one
  uint64_t carried = 0;       // sent for other workers
  uint64_t no_buffer = 0;     // dropped: no buffer for a copy
};

// The top layer of the worker's queue, above loopback, capture and impairment. A worker without a
// queue receives only by rings, and sends by the queue of another worker.
//
// A frame is freed by the worker that allocated it: Free() returns a frame that was received from
// another worker to that worker by a ring. Each packet pool is therefore used by one core only,
// without an atomic read-modify-write between cores.
class alignas(64) Steering final : public Link {
 public:
  static constexpr uint16_t kBurst = 32;

  // The layer of worker `index`. `link` is its queue, null if it has none
  // (SteeringRings::HasQueue()); `pool` is its packet pool. The arguments are not owned and must
  // outlive this object.
  Steering(const RxClassifier& classifier, uint32_t index, Link* link, rte_mempool* pool,
           SteeringRings* rings);
  ~Steering() override { Clear(); }
  Steering(const Steering&) = delete;
  Steering& operator=(const Steering&) = delete;

  // Frames that are not RoCE are of this worker's pool or its own queue's, and may be kept; RoCE
  // frames must be passed to Free() before the next call.
  uint16_t Receive(rte_mbuf** frames, uint16_t capacity, uint64_t now_ns) override;
  uint16_t Send(rte_mbuf** frames, uint16_t count, uint64_t now_ns) override;
  // Frees `count` frames that Receive() returned.
  void Free(rte_mbuf** frames, unsigned count);

  // Whether the last Receive() moved anything between workers; if so, its caller is not idle.
  bool moved() const { return moved_; }
  const SteeringCounters& counters() const { return counters_; }
  // Frees the frames kept here. Call it at shutdown, before the packet pools are destroyed.
  void Clear();

 private:
  // A received frame's mbuf (hash.usr) holds the index of the worker that must free it, and this
  // bit while the frame is in a ring, if it is not RoCE.
  static constexpr uint32_t kNotRoce = 1u << 31;
  // The frames collected for another worker while a burst is sorted.
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
  uint32_t turn_ = 0;  // the worker whose ring is read first
  bool moved_ = false;
  SteeringCounters counters_;
  uint16_t carried_count_ = 0;
  std::array<rte_mbuf*, kBurst> carried_;  // copies that the link has yet to accept
  std::vector<Outbox> outboxes_;           // one per worker
};

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_STEERING_STEERING_H_
