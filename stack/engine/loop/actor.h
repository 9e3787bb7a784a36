// Asynchronous control: work is sent to its owner, and the result is sent back.
#ifndef POLLUX_STACK_ENGINE_LOOP_ACTOR_H_
#define POLLUX_STACK_ENGINE_LOOP_ACTOR_H_

#include <atomic>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "absl/functional/any_invocable.h"

namespace pollux::engine {

// A receiver of control messages: a worker, or a thread of the application. Each has one mailbox,
// which only its owner empties. Messages of one sender run in the order in which they were sent.
// Needs no EAL.
//
// The mailbox is a linked list, so that no thread waits. In a ring with many producers a sender
// would wait for another sender that was preempted in the middle of sending, and two owners that
// send to each other could wait for room. Its length is at most the number of control calls in
// progress, and each sender keeps an object for its call anyway.
class Actor {
 public:
  Actor() = default;
  virtual ~Actor();  // destroys the remaining messages without running them
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;

  // Runs `work` on `owner`'s core at its next poll. May be called on any thread; never blocks.
  static void Post(Actor& owner, absl::AnyInvocable<void()> work);

  // Runs `work` on `owner`'s core, then `done(result)` on this actor's core. If `owner` is this
  // actor, the work still runs at its next poll, so callers see the same order. Only for this
  // actor's core. `work` is any callable without arguments; `done` receives its result.
  template <class Work, class Done>
  void Call(Actor& owner, Work work, Done done) {
    Post(owner, [this, work = std::move(work), done = std::move(done)]() mutable {
      if constexpr (std::is_void_v<std::invoke_result_t<Work>>) {
        work();
        Post(*this, [done = std::move(done)]() mutable { done(); });
      } else {
        Post(*this,
             [result = work(), done = std::move(done)]() mutable { done(std::move(result)); });
      }
    });
  }

  // Runs at most `limit` of the messages that had arrived before the call; returns their number.
  // Only for the owner.
  unsigned RunMailbox(unsigned limit = 64) {
    // Read before it is written: most of the time it is empty, and its cache line is then only
    // read.
    if (arrived_.load(std::memory_order_relaxed) != nullptr) [[unlikely]]
      TakeArrived();
    return taken_ == nullptr ? 0 : RunTaken(limit);
  }

 private:
  struct Message;

  [[gnu::noinline]] unsigned RunTaken(unsigned limit);
  [[gnu::noinline]] void TakeArrived();

  // Newest first. Written by every sender, so it has its own cache line.
  alignas(64) std::atomic<Message*> arrived_{nullptr};
  // Only for the owner: messages that were taken and have not run yet, oldest first.
  alignas(64) Message* taken_ = nullptr;
  Message* last_taken_ = nullptr;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_LOOP_ACTOR_H_
