#include "stack/engine/objects/queue_pair_table.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace pollux::engine {
namespace {

using transport::Drop;

}  // namespace

QueuePairSlot::QueuePairSlot() : timer(&QueuePairTable::OnSlotTimer, this) {}

absl::Status QueuePairTable::Check(const QpnLayout& layout, uint32_t worker,
                                   uint32_t max_queue_pairs) {
  // With one bit of generation a number at least differs from the one before.
  if (layout.index_bits < 2 || layout.process_bits + layout.worker_bits + layout.index_bits > 23) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "queue pair numbers of %u process bits, %u worker bits and %u index bits: at least 2 for "
        "the index and 23 in all are possible",
        layout.process_bits, layout.worker_bits, layout.index_bits));
  }
  // QPN 0, 1 and 0xFFFFFF have a meaning: none comes about when these indices are left out.
  const uint32_t end_index = (1u << layout.index_bits) - 1;
  if (worker >= 1u << layout.worker_bits || max_queue_pairs == 0 ||
      max_queue_pairs > end_index - kFirstIndex) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "worker %u with %u queue pairs: the number layout holds workers 0 to %u with 1 to %u each",
        worker, max_queue_pairs, (1u << layout.worker_bits) - 1, end_index - kFirstIndex));
  }
  return absl::OkStatus();
}

QueuePairTable::QueuePairTable(const QpnLayout& layout, uint32_t worker, uint32_t max_queue_pairs,
                               Random* random, OnTimer on_timer, void* context)
    : index_mask_((1u << layout.index_bits) - 1),
      slot_count_(kFirstIndex + max_queue_pairs),
      slots_(std::make_unique<Slot[]>(slot_count_)),
      layout_(layout),
      worker_(worker),
      random_(random),
      on_timer_(on_timer),
      context_(context) {
  for (uint32_t i = 0; i < slot_count_; ++i) slots_[i].table = this;
  // From a random place on: a process started anew has other numbers than the one before, whose
  // connections a peer may not have forgotten yet (it would call ours stale).
  const auto start = static_cast<uint32_t>(random_->Below(max_queue_pairs));
  for (uint32_t i = 0; i < max_queue_pairs; ++i) {
    free_slots_.push_back(kFirstIndex + (start + i) % max_queue_pairs);
  }
}

QueuePairSlot* QueuePairTable::FindOther(Qpn qpn, transport::Counters& counters) {
  const uint32_t place = PlaceOf(qpn);
  Slot* slot = nullptr;
  if (qpn == kGsiQpn) {
    slot = gsi_slot_.get();
  } else if (layout_.Holds(qpn) && layout_.worker(qpn) == worker_) {
    if (place < slot_count_) slot = &slots_[place];
  }
  // Of another worker or process, or nobody's.
  if (slot == nullptr || slot->endpoint == nullptr) {
    counters.Count(Drop::kUnknownQpn, qpn);
    return nullptr;
  }
  if (slot->qpn != qpn) {
    counters.Count(Drop::kStaleQpn, qpn);
    return nullptr;
  }
  return slot;
}

transport::Endpoint* QueuePairTable::FindEndpoint(Qpn qpn) const {
  const uint32_t place = PlaceOf(qpn);
  const Slot* slot = qpn == kGsiQpn        ? gsi_slot_.get()
                     : place < slot_count_ ? &slots_[place]
                                           : nullptr;
  return slot != nullptr && slot->qpn == qpn ? slot->endpoint.get() : nullptr;
}

QueuePairSlot* QueuePairTable::Take() {
  if (free_slots_.empty()) return nullptr;
  const uint32_t index = free_slots_.front();
  free_slots_.pop_front();
  Slot& slot = slots_[index];
  Qpn qpn;
  do {
    qpn = layout_.Make(worker_, random_->Next32(), index);
  } while (qpn == slot.qpn);
  slot.qpn = qpn;
  return &slot;
}

QueuePairSlot* QueuePairTable::TakeGsi() {
  if (gsi_slot_ == nullptr) gsi_slot_ = std::make_unique<Slot>();
  if (gsi_slot_->endpoint != nullptr) return nullptr;
  gsi_slot_->table = this;
  gsi_slot_->qpn = kGsiQpn;
  return gsi_slot_.get();
}

void QueuePairTable::Release(Slot& slot) {
  if (&slot != gsi_slot_.get()) free_slots_.push_back(static_cast<uint32_t>(&slot - slots_.get()));
}

uint32_t QueuePairTable::in_use() const {
  return static_cast<uint32_t>(
      std::count_if(slots_.get(), slots_.get() + slot_count_,
                    [](const Slot& slot) { return slot.endpoint != nullptr; }));
}

void QueuePairTable::Clear() {
  gsi_slot_.reset();
  slot_count_ = 0;
  slots_.reset();
}

void QueuePairTable::OnSlotTimer(void* context, uint64_t /*now_ns*/) {
  Slot& slot = *static_cast<Slot*>(context);
  slot.table->on_timer_(slot.table->context_, slot);
}

}  // namespace pollux::engine
