// The queue pair numbers of a worker, and what stands behind each: a number in use leads to its
// endpoint without a search.
#ifndef POLLUX_STACK_ENGINE_OBJECTS_QUEUE_PAIR_TABLE_H_
#define POLLUX_STACK_ENGINE_OBJECTS_QUEUE_PAIR_TABLE_H_

#include <rte_prefetch.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "absl/status/status.h"
#include "stack/base/random.h"
#include "stack/base/types.h"
#include "stack/engine/timer/timing_wheel.h"
#include "stack/io/steering/qpn_layout.h"
#include "stack/transport/diagnostics/counters.h"
#include "stack/transport/endpoint.h"
#include "stack/verbs/queue_pair.h"

namespace pollux::engine {

class QueuePairTable;

// The place of a queue pair number. Without an endpoint it is free, or in time-wait while its timer
// is armed. One cache line: with many active queue pairs each packet finds it cold.
struct alignas(64) QueuePairSlot {
  QueuePairSlot();

  QueuePairTable* table = nullptr;
  Qpn qpn;  // the present one, or the last; 0 before the first
  // Whose neighbour the queue pair's path refers to, as verbs count ports; 0: no path.
  uint8_t path_port_num = 0;
  // Fires at the endpoint's deadline or before it: it is not moved when the deadline becomes later.
  Timer timer;
  std::unique_ptr<transport::Endpoint> endpoint;
};
static_assert(alignof(QueuePairSlot) == 64 && sizeof(QueuePairSlot) == 64);

class QueuePairTable {
 public:
  using Slot = QueuePairSlot;
  // The timer of a slot with an endpoint has fired.
  using OnTimer = void (*)(void* context, Slot& slot);

  // OK when `layout` holds worker `worker` with `max_queue_pairs`; else InvalidArgument.
  static absl::Status Check(const io::QpnLayout& layout, uint32_t worker, uint32_t max_queue_pairs);
  // What Check() has found good. `random` outlives this, as does the wheel on which slots' timers
  // are armed.
  QueuePairTable(const io::QpnLayout& layout, uint32_t worker, uint32_t max_queue_pairs,
                 Random* random, OnTimer on_timer, void* context);
  QueuePairTable(const QueuePairTable&) = delete;
  QueuePairTable& operator=(const QueuePairTable&) = delete;

  // The slot that answers to `qpn`; null, and counted, when there is none.
  [[gnu::always_inline]] Slot* Find(Qpn qpn, transport::Counters& counters) {
    Slot* slot = FindInUse(qpn);
    return slot != nullptr ? slot : FindOther(qpn, counters);
  }
  // The same without counting, and not for queue pair 1.
  [[gnu::always_inline]] Slot* FindInUse(Qpn qpn) const {
    // A number in use says whose it is as a whole.
    const uint32_t place = PlaceOf(qpn);
    if (place < slot_count_ && slots_[place].qpn == qpn && slots_[place].endpoint != nullptr)
        [[likely]]
      return &slots_[place];
    return nullptr;
  }
  // The endpoint behind a number; null when there is none.
  transport::Endpoint* FindEndpoint(Qpn qpn) const;
  // Of a queue pair that exists.
  Slot& Of(const verbs::QueuePair& qp) {
    return qp.qpn() == kGsiQpn ? *gsi_slot_ : slots_[PlaceOf(qp.qpn())];
  }
  // Has the slot of a number fetched, whether it exists or not, and once that is there what it
  // leads to.
  void PrefetchSlot(Qpn qpn) const {
    const uint32_t place = PlaceOf(qpn);
    if (place < slot_count_) rte_prefetch0(&slots_[place]);
  }
  void PrefetchEndpoint(Qpn qpn, bool sends) const {
    const uint32_t place = PlaceOf(qpn);
    if (place >= slot_count_ || slots_[place].endpoint == nullptr) return;
    slots_[place].endpoint->Prefetch(sends);
  }

  // A slot under a new number, for an endpoint; null when all are in use or in time-wait.
  Slot* Take();
  // The one of queue pair 1.
  Slot* TakeGsi();
  // Gives the number of a slot, whose endpoint is gone, to those that wait for use. A slot in
  // time-wait gives it by itself, when its timer fires.
  void Release(Slot& slot);

  uint32_t in_use() const;  // without queue pair 1
  size_t free_numbers() const { return free_slots_.size(); }
  // Numbers in use that are larger than `after`, smallest first but for the generation in them,
  // until `visit(Qpn)` returns false.
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

  uint32_t index_mask_;  // of a queue pair number
  uint32_t slot_count_;
  // By index of the queue pair number: in one piece, so that a burst's are found without a look at
  // memory.
  std::unique_ptr<Slot[]> slots_;
  std::unique_ptr<Slot> gsi_slot_;
  std::deque<uint32_t> free_slots_;  // longest unused first
  io::QpnLayout layout_;
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
