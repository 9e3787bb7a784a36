// A completion channel: tells a thread that sleeps that a completion queue has something.
#ifndef POLLUX_STACK_VERBS_COMPLETION_CHANNEL_H_
#define POLLUX_STACK_VERBS_COMPLETION_CHANNEL_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "stack/base/fd_waiter.h"

namespace pollux::verbs {

class CompletionQueue;

// The worker that owns its completion queues announces; one other thread, or the same, takes. An
// eventfd carries the news, so that poll(2) and epoll can wait for it.
class CompletionChannel {
 public:
  // Completion queues of one channel: each has room for one announcement.
  static constexpr uint32_t kMaxQueues = 1024;

  // Makes the eventfd. ResourceExhausted when the process has no descriptor left.
  static absl::StatusOr<std::unique_ptr<CompletionChannel>> Create();
  ~CompletionChannel();
  CompletionChannel(const CompletionChannel&) = delete;
  CompletionChannel& operator=(const CompletionChannel&) = delete;

  // Readable while an announcement waits. Not to be read by others.
  int fd() const { return fd_; }
  // As ibv_get_cq_event, without waiting: the queue that was announced longest ago, null when none
  // was. It has to be armed again before it is announced again.
  CompletionQueue* GetEvent();
  // Rings with each announcement, for threads that wait for it by no other means.
  FdWaiter& fd_waiter() { return fd_waiter_; }

 private:
  friend class CompletionQueue;
  explicit CompletionChannel(int fd) : fd_(fd) {}

  // Owner only. False when kMaxQueues use it.
  bool Attach();
  void Detach() { --queues_; }
  void Announce(CompletionQueue* cq);

  int fd_;
  FdWaiter fd_waiter_;
  uint32_t queues_ = 0;
  std::atomic<uint32_t> head_{0}, tail_{0};
  std::array<CompletionQueue*, kMaxQueues> ring_{};
};

}  // namespace pollux::verbs

#endif  // POLLUX_STACK_VERBS_COMPLETION_CHANNEL_H_
