// Posted work requests that have not left the port yet.
#ifndef POLLUX_COMPAT_RUNTIME_HELD_POSTS_H_
#define POLLUX_COMPAT_RUNTIME_HELD_POSTS_H_

#include <atomic>
#include <cstdint>

#include "stack/engine/polling/application_activity.h"

namespace pollux::compat {

// The first post after a turn of the loop leaves at once, and of those that follow without a turn,
// kPostsTogether leave together. They do so at the latest when the progress thread finds that the
// program has not polled for ProgressPolicy::kAbandonedNs; before their queue pair leaves RTS
// (Worker::ModifyQp(), DestroyQp()); and before the process ends (Runtime::SendHeldPosts()).
//
// All functions but AwaitSent() are for the worker's owner.
class HeldPosts {
 public:
  static constexpr uint32_t kPostsTogether = 32;  // as many as leave a port in one burst
  // But half as many wait no longer than until a call looks for completions and finds some: what is
  // done with each may take long.
  static constexpr uint32_t kPostsWaiting = 16;
  static constexpr int kLongestSendMs = 20;

  // Posts since the last turn of the loop.
  uint32_t since_poll() const { return posts_since_poll_.load(std::memory_order_relaxed); }
  // Whether a post that comes after so many leaves at once, and with it those that are held.
  static bool LeavesAtOnce(uint32_t since_poll) { return since_poll % kPostsTogether == 0; }
  // After a post that came after so many, and after the turn of the loop that has sent it if it
  // leaves at once.
  void Posted(uint32_t since_poll, engine::ApplicationActivity& activity) {
    posts_since_poll_.store(since_poll + 1, std::memory_order_relaxed);
    if (since_poll == 1) activity.EndLongNap();  // the first that is held
  }
  // In each turn of the loop: it has sent what was posted.
  void Sent() { posts_since_poll_.store(0, std::memory_order_release); }
  // Whether a call that finds completions sends them.
  bool TooManyWaiting() const { return since_poll() > kPostsWaiting; }
  // Of any thread but the owner, in signal handlers too. The progress thread sends them. Returns
  // when it has done so, or after kLongestSendMs.
  void AwaitSent(engine::ApplicationActivity& activity) const;

 private:
  // The first of them has left, the others are held.
  std::atomic<uint32_t> posts_since_poll_{0};
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_RUNTIME_HELD_POSTS_H_
