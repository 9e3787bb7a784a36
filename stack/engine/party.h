// Asynchronous control: work sent to its owner, the result sent back.
#ifndef POLLUX_STACK_ENGINE_PARTY_H_
#define POLLUX_STACK_ENGINE_PARTY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/functional/any_invocable.h"

struct rte_ring;

namespace pollux::engine {

// Someone that control messages can be sent to: a worker, or an application's own thread. Each has
// one mailbox (an rte_ring, many producers, one consumer), which only its owner empties. Messages
// of one sender run in the order sent. Needs no EAL.
class Party {
 public:
  // Messages in the ring. What finds it full waits in a list behind it and not with its sender: two
  // owners that send to each other, or one that sends to itself, would wait for ever. The list is
  // as long as the control calls that senders have under way, each an object of theirs anyway.
  static constexpr unsigned kMailboxDepth = 4096;

  explicit Party(const std::string& name);
  virtual ~Party();  // what is left in the mailbox is destroyed without being run
  Party(const Party&) = delete;
  Party& operator=(const Party&) = delete;

  // Runs `work` on `owner`'s core at its next poll. Any thread; never blocks.
  static void Post(Party& owner, absl::AnyInvocable<void()> work);

  // Runs `work` on `owner`'s core, then `done(result)` on this party's core. `owner` may be this
  // party: the work still runs at its next poll, so that callers cannot come to rely on less.
  // Only on this party's core. `work` is any callable without arguments; `done` takes its result.
  template <class Work, class Done>
  void Call(Party& owner, Work work, Done done) {
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
  unsigned RunMailbox(unsigned limit = 64);

 private:
  struct Message;
  struct FreeRing {
    void operator()(rte_ring* ring) const;
  };

  void PushOverflow(Message* message);
  void TakeOverflow();
  unsigned RunRing(unsigned count);

  std::unique_ptr<rte_ring, FreeRing> ring_;
  // Newest first. While overflow_count_ is not zero all senders use the list, so that nobody's
  // later message overtakes an earlier one by way of the ring.
  std::atomic<Message*> overflow_{nullptr};
  std::atomic<uint64_t> overflow_count_{0};
  // Owner only: what was taken from the list, oldest first, and how many messages of the ring come
  // before it.
  Message* taken_ = nullptr;
  unsigned ring_before_taken_ = 0;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_PARTY_H_
