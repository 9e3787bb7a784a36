// Posted work requests that have not left the port yet.
#ifndef POLLUX_COMPAT_RUNTIME_HELD_POSTS_H_
#define POLLUX_COMPAT_RUNTIME_HELD_POSTS_H_

#include <atomic>
#include <cstdint>

#include "stack/engine/polling/application_activity.h"

namespace pollux::compat {

// The first post after a poll is sent at once; later posts without a poll in between are sent in
// groups of kPostsTogether. Held posts are sent at the latest when the progress thread finds that
// the program has not polled for ProgressPolicy::kAbandonedNs, before their queue pair leaves RTS
// (Worker::ModifyQp(), DestroyQp()), and before the process ends (Runtime::SendHeldPosts()).
//
// Every function except AwaitSent() is called by the worker's owner.
class HeldPosts {
 public:
  static constexpr uint32_t kPostsTogether = 32;  // the number of frames in one burst of a port
  // If more than this many are held, a call that has found completions sends them, because the
  // program may take long to handle each completion.
  static constexpr uint32_t kPostsWaiting = 16;
  static constexpr int kLongestSendMs = 20;

  // Returns the number of posts since the last poll.
  uint32_t since_poll() const { return posts_since_poll_.load(std::memory_order_relaxed); }
  // Returns whether a post that follows `since_poll` others is sent at once, together with those
  // that are held.
  static bool LeavesAtOnce(uint32_t since_poll) { return since_poll % kPostsTogether == 0; }
  // Call it after a post that followed `since_poll` others; if the post is sent at once, after the
  // poll that sent it.
  void Posted(uint32_t since_poll, engine::ApplicationActivity& activity) {
    posts_since_poll_.store(since_poll + 1, std::memory_order_relaxed);
    if (since_poll == 1) activity.EndLongNap();  // the first post that is held
  }
  // Call it after each poll, which has sent all posts.
  void Sent() { posts_since_poll_.store(0, std::memory_order_release); }
  // Returns whether a call that finds completions sends the held posts.
  bool TooManyWaiting() const { return since_poll() > kPostsWaiting; }
  // Called by any thread except the owner, also in signal handlers. Waits until the progress thread
  // has sent the posts, at most for kLongestSendMs.
  void AwaitSent(engine::ApplicationActivity& activity) const;

 private:
  // The first of these posts was sent, the others are held.
  std::atomic<uint32_t> posts_since_poll_{0};
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_RUNTIME_HELD_POSTS_H_
