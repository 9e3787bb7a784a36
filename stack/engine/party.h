// Asynchronous control: work sent to its owner, the result sent back.
#ifndef POLLUX_STACK_ENGINE_PARTY_H_
#define POLLUX_STACK_ENGINE_PARTY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/functional/any_invocable.h"

struct rte_ring;

namespace pollux::engine {

// Someone that control messages can be sent to: a worker, or an application's own thread. Each has
// one mailbox (an rte_ring, many producers, one consumer), which only its owner empties.
class Party {
 public:
  static constexpr unsigned kMailboxDepth = 4096;  // messages; a sender waits beyond it

  explicit Party(const std::string& name);
  virtual ~Party();  // what is left in the mailbox is destroyed without being run
  Party(const Party&) = delete;
  Party& operator=(const Party&) = delete;

  // Runs `work` on `owner`'s core at its next poll. Any thread.
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

  // Runs what has arrived, at most `limit` messages; returns how many. Owner only.
  unsigned RunMailbox(unsigned limit = 64);

 private:
  rte_ring* mailbox_;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_PARTY_H_
