// The queue pair numbers of a worker. Finds the endpoint of a number without a search.
#ifndef POLLUX_STACK_ENGINE_OBJECTS_QUEUE_PAIR_TABLE_H_
#define POLLUX_STACK_ENGINE_OBJECTS_QUEUE_PAIR_TABLE_H_

#include <rte_prefetch.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "absl/status/status.h"
#include "stack/base/qpn_layout.h"
#include "stack/base/random.h"
#include "stack/base/types.h"
#include "stack/engine/timer/timing_wheel.h"
#include "stack/transport/diagnostics/counters.h"
#include "stack/transport/endpoint.h"
#include "stack/verbs/queue_pair.h"

namespace pollux::engine {

class QueuePairTable;

// The slot of a queue pair number; free without an endpoint. One cache line, because with many
// active queue pairs it is not in the cache when a packet arrives.
struct alignas(64) QueuePairSlot {
  QueuePairSlot();

  QueuePairTable* table = nullptr;
  Qpn qpn;  // the current number, or the last one; 0 before the first
  // The number of the port (from 1, as in verbs) whose neighbour table has the next hop of the
  // queue pair's path; 0: no path.
  uint8_t path_port_num = 0;
  // Fires at the endpoint's deadline or earlier: it is not armed again when the deadline becomes
  // later.
  Timer timer;
  std::unique_ptr<transport::Endpoint> endpoint;
};
static_assert(alignof(QueuePairSlot) == 64 && sizeof(QueuePairSlot) == 64);

class QueuePairTable {
 public:
  using Slot = QueuePairSlot;
  // Called when the timer of a slot with an endpoint fires.
  using OnTimer = void (*)(void* context, Slot& slot);

  // Returns OK if `layout` can hold worker `worker` with `max_queue_pairs`, otherwise
  // InvalidArgument.
  static absl::Status Check(const QpnLayout& layout, uint32_t worker, uint32_t max_queue_pairs);
  // The arguments must have passed Check(). `random` must outlive this object, as must the wheel on
  // which the slots' timers are armed.
  QueuePairTable(const QpnLayout& layout, uint32_t worker, uint32_t max_queue_pairs, Random* random,
                 OnTimer on_timer, void* context);
  QueuePairTable(const QueuePairTable&) = delete;
  QueuePairTable& operator=(const QueuePairTable&) = delete;

  // Returns the slot of queue pair `qpn`. Returns null, and counts a drop, if there is none.
  [[gnu::always_inline]] Slot* Find(Qpn qpn, transport::Counters& counters) {
    Slot* slot = FindInUse(qpn);
    return slot != nullptr ? slot : FindOther(qpn, counters);
  }
  // The same without counting, and not for queue pair 1.
  [[gnu::always_inline]] Slot* FindInUse(Qpn qpn) const {
    // The whole number is compared: worker, generation and index.
    const uint32_t place = PlaceOf(qpn);
    if (place < slot_count_ && slots_[place].qpn == qpn && slots_[place].endpoint != nullptr)
        [[likely]]
      return &slots_[place];
    return nullptr;
  }
  // Returns the endpoint of a queue pair number, or null if there is none.
  transport::Endpoint* FindEndpoint(Qpn qpn) const;
  // The slot of an existing queue pair.
  Slot& Of(const verbs::QueuePair& qp) {
    return qp.qpn() == kGsiQpn ? *gsi_slot_ : slots_[PlaceOf(qp.qpn())];
  }
  // First call PrefetchSlot(), which works for any number, and then, once the slot is in the cache,
  // PrefetchEndpoint() for what it refers to.
  void PrefetchSlot(Qpn qpn) const {
    const uint32_t place = PlaceOf(qpn);
    if (place < slot_count_) rte_prefetch0(&slots_[place]);
  }
  void PrefetchEndpoint(Qpn qpn, bool sends) const {
    const uint32_t place = PlaceOf(qpn);
    if (place >= slot_count_ || slots_[place].endpoint == nullptr) return;
    slots_[place].endpoint->Prefetch(sends);
  }

  // Takes the slot that has been free for the longest time, for an endpoint; null if all are in
  // use. The slot's new number differs from its last one, so late packets for the last one reach no
  // queue pair. An older number may return by chance, because the generation bits are random. Slots
  // have no time-wait, during which a flood of connection requests would use up all of them.
  Slot* Take();
  // Takes the slot of queue pair 1; null if it is in use.
  Slot* TakeGsi();
  // Frees a slot whose endpoint has been destroyed.
  void Release(Slot& slot);

  uint32_t in_use() const;  // without queue pair 1
  size_t free_numbers() const { return free_slots_.size(); }
  // Visits the numbers in use that follow `after` in the order of their index, whatever their
  // generation, until `visit(Qpn)` returns false.
  template <class Visit>
  void VisitNumbers(Qpn after, Visit visit) const;

  // Destroys every endpoint and slot.
  void Clear();

 private:
  friend struct QueuePairSlot;
  static constexpr uint32_t kFirstIndex = 2;

  uint32_t PlaceOf(Qpn qpn) const { return qpn.value & index_mask_; }
  Slot* FindOther(Qpn qpn, transport::Counters& counters);
  static void OnSlotTimer(void* slot, uint64_t now_ns);

  uint32_t index_mask_;  // the index bits of a queue pair number
  uint32_t slot_count_;
  // By the index of the queue pair number: one array, so that the slots for a burst are found
  // without reading memory.
  std::unique_ptr<Slot[]> slots_;
  std::unique_ptr<Slot> gsi_slot_;
  std::deque<uint32_t> free_slots_;  // longest unused first
  QpnLayout layout_;
  uint32_t worker_;
  Random* random_;
  OnTimer on_timer_;
  void* context_;
};

template <class Visit>
void QueuePairTable::VisitNumbers(Qpn after, Visit visit) const {
  const bool gsi = gsi_slot_ != nullptr && gsi_slot_->endpoint != nullptr;
  if (gsi && after.value < kGsiQpn.value && !visit(kGsiQpn)) return;
  const uint32_t next = after.value <= kGsiQpn.value ? 0 : layout_.index(after) + 1;
  for (uint32_t i = next; i < slot_count_; ++i) {
    if (slots_[i].endpoint != nullptr && !visit(slots_[i].qpn)) return;
  }
}

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_OBJECTS_QUEUE_PAIR_TABLE_H_
