#include "stack/engine/party.h"

#include <rte_config.h>
#include <rte_ring.h>

#include <algorithm>
#include <cstdlib>

namespace pollux::engine {

struct Party::Message {
  absl::AnyInvocable<void()> work;
  Message* next = nullptr;
};

void Party::FreeRing::operator()(rte_ring* ring) const { std::free(ring); }

Party::Party(const std::string& name) {
  // A ring of kMailboxDepth slots would hold one message less.
  constexpr unsigned kSlots = kMailboxDepth * 2;
  const size_t bytes = static_cast<size_t>(rte_ring_get_memsize(kSlots));
  void* memory = std::aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN(bytes, RTE_CACHE_LINE_SIZE));
  if (memory == nullptr) std::abort();  // as operator new without exceptions
  ring_.reset(static_cast<rte_ring*>(memory));
  const std::string ring_name = name.substr(0, RTE_RING_NAMESIZE - 1);
  rte_ring_init(ring_.get(), ring_name.c_str(), kMailboxDepth, RING_F_SC_DEQ | RING_F_EXACT_SZ);
}

Party::~Party() {
  void* message;
  while (rte_ring_sc_dequeue(ring_.get(), &message) == 0) delete static_cast<Message*>(message);
  for (Message* list : {taken_, overflow_.load()}) {
    while (list != nullptr) delete std::exchange(list, list->next);
  }
}

void Party::Post(Party& owner, absl::AnyInvocable<void()> work) {
  auto* message = new Message{.work = std::move(work)};
  // The count is the sender's own news too: it reads at least what it has itself added.
  if (owner.overflow_count_.load(std::memory_order_acquire) == 0 &&
      rte_ring_mp_enqueue(owner.ring_.get(), message) == 0) {
    return;
  }
  owner.PushOverflow(message);
}

void Party::PushOverflow(Message* message) {
  overflow_count_.fetch_add(1, std::memory_order_relaxed);
  message->next = overflow_.load(std::memory_order_relaxed);
  while (!overflow_.compare_exchange_weak(message->next, message, std::memory_order_release,
                                          std::memory_order_relaxed)) {
  }
}

void Party::TakeOverflow() {
  Message* newest_first = overflow_.exchange(nullptr, std::memory_order_acquire);
  while (newest_first != nullptr) {
    Message* rest = newest_first->next;
    newest_first->next = taken_;
    taken_ = newest_first;
    newest_first = rest;
  }
  // Whoever stands in the list had put what it sent before into the ring by now.
  ring_before_taken_ = rte_ring_count(ring_.get());
}

unsigned Party::RunRing(unsigned count) {
  for (unsigned ran = 0; ran < count; ++ran) {
    void* message;
    if (rte_ring_sc_dequeue(ring_.get(), &message) != 0) return ran;
    std::unique_ptr<Message>(static_cast<Message*>(message))->work();
  }
  return count;
}

unsigned Party::RunMailbox(unsigned limit) {
  if (taken_ == nullptr && overflow_.load(std::memory_order_relaxed) != nullptr) TakeOverflow();
  if (taken_ == nullptr) return RunRing(std::min(limit, rte_ring_count(ring_.get())));
  unsigned ran = RunRing(std::min(limit, ring_before_taken_));
  ring_before_taken_ -= ran;
  while (ring_before_taken_ == 0 && taken_ != nullptr && ran < limit) {
    const std::unique_ptr<Message> message(std::exchange(taken_, taken_->next));
    message->work();
    ++ran;
    overflow_count_.fetch_sub(1, std::memory_order_release);
  }
  return ran;
}

}  // namespace pollux::engine
