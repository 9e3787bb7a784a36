// Asynchronous control: work sent to its owner, the result sent back.
#ifndef POLLUX_STACK_ENGINE_LOOP_ACTOR_H_
#define POLLUX_STACK_ENGINE_LOOP_ACTOR_H_

#include <atomic>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "absl/functional/any_invocable.h"

namespace pollux::engine {

// Someone that control messages can be sent to: a worker, or an application's own thread. Each has
// one mailbox, which only its owner empties. Messages of one sender run in the order sent. Needs no
// EAL.
//
// The mailbox is a list, and nobody waits for anybody: not a sender for one that was preempted
// while it sent, as in a ring of many producers, nor two owners that send to each other for room.
// It is as long as the control calls that senders have under way, each an object of theirs anyway.
class Actor {
 public:
  Actor() = default;
  virtual ~Actor();  // what is left in the mailbox is destroyed without being run
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;

  // Runs `work` on `owner`'s core at its next poll. Any thread; never blocks.
  static void Post(Actor& owner, absl::AnyInvocable<void()> work);

  // Runs `work` on `owner`'s core, then `done(result)` on this actor's core. `owner` may be this
  // actor: the work still runs at its next poll, so that callers cannot come to rely on less.
  // Only on this actor's core. `work` is any callable without arguments; `done` takes its result.
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

  // Runs what had arrived when it was called, at most `limit` messages; returns how many. Owner
  // only.
  unsigned RunMailbox(unsigned limit = 64) {
    // Looked at before it is written: most of the time it is empty, and this core's to read.
    if (arrived_.load(std::memory_order_relaxed) != nullptr) [[unlikely]]
      TakeArrived();
    return taken_ == nullptr ? 0 : RunTaken(limit);
  }

 private:
  struct Message;

  unsigned RunTaken(unsigned limit);

  void TakeArrived();

  // Newest first. Written by every sender: not on a line with what the owner works on.
  alignas(64) std::atomic<Message*> arrived_{nullptr};
  // Owner only: what was taken and not run yet, oldest first.
  alignas(64) Message* taken_ = nullptr;
  Message* last_taken_ = nullptr;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_LOOP_ACTOR_H_
