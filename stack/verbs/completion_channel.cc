#include "stack/verbs/completion_channel.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_format.h"
#include "stack/verbs/completion_queue.h"

namespace pollux::verbs {

absl::StatusOr<std::unique_ptr<CompletionChannel>> CompletionChannel::Create() {
  const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
  if (fd < 0) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("completion channel: eventfd: %s", std::strerror(errno)));
  }
  return std::unique_ptr<CompletionChannel>(new CompletionChannel(fd));
}

CompletionChannel::~CompletionChannel() { close(fd_); }

bool CompletionChannel::Attach() {
  if (queues_ == kMaxQueues) return false;
  ++queues_;
  return true;
}

void CompletionChannel::Announce(CompletionQueue* cq) {
  const uint32_t tail = tail_.load(std::memory_order_relaxed);
  ring_[tail % kMaxQueues] = cq;
  tail_.store(tail + 1, std::memory_order_release);
  eventfd_write(fd_, 1);
  fd_waiter_.Ring();
}

CompletionQueue* CompletionChannel::GetEvent() {
  eventfd_t one;
  if (eventfd_read(fd_, &one) != 0) return nullptr;
  const uint32_t head = head_.load(std::memory_order_relaxed);
  CompletionQueue* cq = ring_[head % kMaxQueues];
  head_.store(head + 1, std::memory_order_release);
  cq->announced_.store(false, std::memory_order_release);
  return cq;
}

}  // namespace pollux::verbs
