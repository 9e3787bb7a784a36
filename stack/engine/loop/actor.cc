#include "stack/engine/loop/actor.h"

#include <memory>

namespace pollux::engine {

struct Actor::Message {
  absl::AnyInvocable<void()> work;
  Message* next = nullptr;
};

Actor::~Actor() {
  for (Message* list : {taken_, arrived_.load(std::memory_order_acquire)}) {
    while (list != nullptr) delete std::exchange(list, list->next);
  }
}

void Actor::Post(Actor& owner, absl::AnyInvocable<void()> work) {
  auto* message = new Message{.work = std::move(work)};
  message->next = owner.arrived_.load(std::memory_order_relaxed);
  while (!owner.arrived_.compare_exchange_weak(message->next, message, std::memory_order_release,
                                               std::memory_order_relaxed)) {
  }
}

// Behind what was taken before.
void Actor::TakeArrived() {
  Message* newest_first = arrived_.exchange(nullptr, std::memory_order_acquire);
  Message* const last = newest_first;
  Message* oldest_first = nullptr;
  while (newest_first != nullptr) {
    Message* rest = std::exchange(newest_first->next, oldest_first);
    oldest_first = std::exchange(newest_first, rest);
  }
  (taken_ == nullptr ? taken_ : last_taken_->next) = oldest_first;
  last_taken_ = last;
}

unsigned Actor::RunTaken(unsigned limit) {
  unsigned ran = 0;
  for (; ran < limit && taken_ != nullptr; ++ran) {
    const std::unique_ptr<Message> message(std::exchange(taken_, taken_->next));
    message->work();
  }
  return ran;
}

}  // namespace pollux::engine
