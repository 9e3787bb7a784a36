#include "stack/io/steering/steering.h"

#include <rte_mbuf.h>
#include <rte_prefetch.h>
#include <rte_ring.h>

#include <algorithm>

namespace pollux::io {
namespace {

// A core writes its own steering layer's lines alone.
static_assert(alignof(Steering) == 64 && sizeof(Steering) % 64 == 0);

// Between two looks of its owner at a ring back, at most this comes together there: a full ring
// forward, a burst in the other's hands, and the burst that the owner adds.
constexpr uint32_t kSmallestRing = SteeringRings::SizeFor(1u << QpnLayout{}.worker_bits);
static_assert(SteeringRings::kBackFactor * kSmallestRing - 1 >=
              kSmallestRing - 1 + 2 * Steering::kBurst);

unsigned Dequeue(rte_ring* ring, rte_mbuf** frames, unsigned count) {
  return rte_ring_sc_dequeue_burst(ring, reinterpret_cast<void**>(frames), count, nullptr);
}

unsigned Enqueue(rte_ring* ring, rte_mbuf** frames, unsigned count) {
  return rte_ring_sp_enqueue_burst(ring, reinterpret_cast<void**>(frames), count, nullptr);
}

}  // namespace

Steering::Steering(const RxClassifier& classifier, uint32_t index, Link* link, rte_mempool* pool,
                   SteeringRings* rings)
    : classifier_(classifier),
      index_(index),
      link_(link),
      pool_(pool),
      rings_(rings),
      outboxes_(rings->workers()) {}

uint16_t Steering::Receive(rte_mbuf** frames, uint16_t capacity, uint64_t now_ns) {
  moved_ = false;
  TakeBack();
  if (link_ == nullptr) return TakeFromRings(frames, capacity);
  Carry(now_ns);
  // Half of a burst at most, so that the port is heard too.
  const uint16_t count = TakeFromRings(frames, (capacity + 1) / 2);
  return count + TakeFromLink(frames + count, std::min<uint16_t>(capacity - count, kBurst), now_ns);
}

uint16_t Steering::Send(rte_mbuf** frames, uint16_t count, uint64_t now_ns) {
  if (link_ != nullptr) return link_->Send(frames, count, now_ns);
  TakeBack();
  rte_ring* ring = rings_->forward(index_, rings_->CarrierOf(index_));
  const unsigned sent = Enqueue(ring, frames, std::min<uint16_t>(count, kBurst));
  counters_.sent_by_ring += sent;
  return static_cast<uint16_t>(sent);
}

// ---- What comes from the port.

uint16_t Steering::TakeFromLink(rte_mbuf** frames, uint16_t capacity, uint64_t now_ns) {
  const uint16_t count = link_->Receive(frames, capacity, now_ns);
  if (count == 0) return 0;
  for (uint16_t i = 0; i < count; ++i) rte_prefetch0(rte_pktmbuf_mtod(frames[i], void*));
  counters_.received += count;
  uint16_t kept = 0;
  for (uint16_t i = 0; i < count; ++i) {
    if (Place(frames[i])) frames[kept++] = frames[i];
  }
  counters_.kept += kept;
  EmptyOutboxes();
  return kept;
}

// Whether the frame is for this worker; it is on its way to its owner otherwise.
bool Steering::Place(rte_mbuf* frame) {
  const RxDestination owner = classifier_.Find(*frame);
  frame->hash.usr = index_;
  switch (owner.kind) {
    case RxDestination::Kind::kReceiver:
      return true;
    case RxDestination::Kind::kEveryone:
      CopyToOthers(frame, owner.is_roce);
      return true;
    case RxDestination::Kind::kWorker:
      break;
  }
  if (owner.worker == index_) return true;
  PutOut(owner.worker, frame, owner.is_roce);
  return false;
}

void Steering::CopyToOthers(const rte_mbuf* frame, bool is_roce) {
  for (uint32_t worker = 0; worker < outboxes_.size(); ++worker) {
    if (worker == index_) continue;
    rte_mbuf* copy = rte_pktmbuf_copy(frame, pool_, 0, UINT32_MAX);
    if (copy == nullptr) {
      ++counters_.no_buffer;
      continue;
    }
    PutOut(worker, copy, is_roce);
  }
}

void Steering::PutOut(uint32_t worker, rte_mbuf* frame, bool is_roce) {
  frame->hash.usr = index_ | (is_roce ? 0 : kNotRoce);
  // A burst adds no more to each than it has frames.
  Outbox& outbox = outboxes_[worker];
  outbox.frames[outbox.count++] = frame;
}

void Steering::EmptyOutboxes() {
  for (uint32_t worker = 0; worker < outboxes_.size(); ++worker) {
    Outbox& outbox = outboxes_[worker];
    if (outbox.count == 0) continue;
    moved_ = true;
    const unsigned taken =
        Enqueue(rings_->forward(index_, worker), outbox.frames.data(), outbox.count);
    counters_.handed_over += taken;
    if (taken < outbox.count) {
      counters_.ring_full += outbox.count - taken;
      rte_pktmbuf_free_bulk(outbox.frames.data() + taken, outbox.count - taken);
    }
    outbox.count = 0;
  }
}

// ---- What comes from the other workers.

uint16_t Steering::TakeFromRings(rte_mbuf** frames, uint16_t capacity) {
  const uint32_t workers = rings_->workers();
  uint16_t count = 0;
  turn_ = (turn_ + 1) % workers;
  for (uint32_t i = 0; i < workers && count < capacity; ++i) {
    const uint32_t from = (turn_ + i) % workers;
    if (from == index_ || !rings_->HasQueue(from)) continue;
    const unsigned taken = Dequeue(rings_->forward(from, index_), frames + count, capacity - count);
    counters_.by_ring += taken;
    const auto end = static_cast<uint16_t>(count + taken);
    for (uint16_t next = count; next < end; ++next) {
      rte_mbuf* frame = frames[next];
      if ((frame->hash.usr & kNotRoce) != 0) [[unlikely]] {
        // Who gets it keeps it.
        rte_mbuf* copy = rte_pktmbuf_copy(frame, pool_, 0, UINT32_MAX);
        GiveBack(from, &frame, 1);
        if (copy == nullptr) {
          ++counters_.no_buffer;
          continue;
        }
        copy->hash.usr = index_;
        frame = copy;
      }
      frames[count++] = frame;
    }
  }
  return count;
}

void Steering::Free(rte_mbuf** frames, unsigned count) {
  for (unsigned i = 0; i < count;) {
    const uint32_t owner = frames[i]->hash.usr;
    unsigned end = i + 1;
    while (end < count && frames[end]->hash.usr == owner) ++end;
    if (owner == index_) {
      rte_pktmbuf_free_bulk(frames + i, end - i);
    } else {
      GiveBack(owner, frames + i, end - i);
    }
    i = end;
  }
}

void Steering::GiveBack(uint32_t owner, rte_mbuf** frames, unsigned count) {
  (void)Enqueue(rings_->back(index_, owner), frames, count);
}

void Steering::TakeBack() {
  std::array<rte_mbuf*, kBurst> frames;
  for (uint32_t from = 0; from < rings_->workers(); ++from) {
    rte_ring* ring = rings_->back(from, index_);
    if (ring == nullptr) continue;
    // To the end, which comes: nothing new is under way meanwhile.
    unsigned count = kBurst;
    while (count == kBurst) {
      count = Dequeue(ring, frames.data(), kBurst);
      if (count > 0) rte_pktmbuf_free_bulk(frames.data(), count);
    }
  }
}

// ---- What is sent for workers without a queue.

void Steering::Carry(uint64_t now_ns) {
  if (carried_count_ > 0) SendCarried(now_ns);
  for (uint32_t client = rings_->queues(); client < rings_->workers(); ++client) {
    if (carried_count_ > 0) return;  // the port is full
    if (rings_->CarrierOf(client) != index_) continue;
    CarryFrom(client);
    if (carried_count_ > 0) SendCarried(now_ns);
  }
}

// As copies: the driver frees what it has sent, and their pool is not this core's.
void Steering::CarryFrom(uint32_t client) {
  std::array<rte_mbuf*, kBurst> frames;
  const unsigned count = Dequeue(rings_->forward(client, index_), frames.data(), kBurst);
  for (unsigned i = 0; i < count; ++i) {
    rte_mbuf* copy = rte_pktmbuf_copy(frames[i], pool_, 0, UINT32_MAX);
    if (copy == nullptr) {
      ++counters_.no_buffer;
      continue;
    }
    carried_[carried_count_++] = copy;
  }
  if (count == 0) return;
  moved_ = true;
  GiveBack(client, frames.data(), count);
}

void Steering::SendCarried(uint64_t now_ns) {
  const uint16_t sent = link_->Send(carried_.data(), carried_count_, now_ns);
  counters_.carried += sent;
  std::copy(carried_.begin() + sent, carried_.begin() + carried_count_, carried_.begin());
  carried_count_ -= sent;
}

void Steering::Clear() {
  if (carried_count_ > 0) rte_pktmbuf_free_bulk(carried_.data(), carried_count_);
  carried_count_ = 0;
}

}  // namespace pollux::io
