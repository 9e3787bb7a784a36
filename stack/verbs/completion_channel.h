// A completion channel: notifies a sleeping thread that a completion queue has completions.
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

// The worker that owns the completion queues writes events; one thread, which may be the worker's
// own, takes them. Events are signalled by an eventfd, so poll(2) and epoll can wait for them.
class CompletionChannel {
 public:
  // Completion queues per channel; each has at most one event in the channel.
  static constexpr uint32_t kMaxQueues = 1024;

  // Creates the eventfd. ResourceExhausted if the process has no file descriptors left.
  static absl::StatusOr<std::unique_ptr<CompletionChannel>> Create();
  ~CompletionChannel();
  CompletionChannel(const CompletionChannel&) = delete;
  CompletionChannel& operator=(const CompletionChannel&) = delete;

  // Readable while an event is pending. Only GetEvent() may read it.
  int fd() const { return fd_; }
  // As ibv_get_cq_event without waiting: returns the queue of the oldest event, or null. The queue
  // must be armed again before its next event.
  CompletionQueue* GetEvent();
  // Signalled with each event, for threads that wait for nothing else.
  FdWaiter& fd_waiter() { return fd_waiter_; }

 private:
  friend class CompletionQueue;
  explicit CompletionChannel(int fd) : fd_(fd) {}

  // Only for the owning worker. Returns false if kMaxQueues use the channel.
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
