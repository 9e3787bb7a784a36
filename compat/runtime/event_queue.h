// A queue of events that a program takes one by one. It can wait for them by a file descriptor.
#ifndef POLLUX_COMPAT_RUNTIME_EVENT_QUEUE_H_
#define POLLUX_COMPAT_RUNTIME_EVENT_QUEUE_H_

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "compat/process/fork_gate.h"
#include "compat/process/forked_child.h"
#include "stack/base/fd_waiter.h"
#include "stack/engine/polling/scoped_cancellation_disable.h"

namespace pollux::compat {

// Selects a queue that has no descriptor and from which no events are taken.
struct NullWaiter {};
inline constexpr NullWaiter kNullWaiter;

// Thread-safe. The descriptor is readable while an event is queued; the program may poll it and
// make it non-blocking. Its count is the number of events. Each object has only a few events in the
// queue at a time, so the number of objects limits the queue's length. A forked child has its own
// copy of the events but shares the descriptor with its parent, so no events are taken there.
template <class Event>
class EventQueue {
 public:
  EventQueue() : fd_(eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)) {}
  explicit EventQueue(NullWaiter /*unused*/) : fd_(-1) {}
  ~EventQueue() {
    if (fd_ >= 0) close(fd_);
  }
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  // Negative if the process had no file descriptor left; the queue cannot be used then.
  int fd() const { return fd_; }

  void Push(Event event) {
    const engine::ScopedCancellationDisable no_cancel;
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
    if (!HasCount()) return;
    eventfd_write(fd_, 1);
    fd_waiter_.Ring();
  }

  // Returns 0 with the oldest event in `*event`. `taken(*event)` has then been called with the
  // queue locked, so that no RemoveIf() runs in between. Waits while there is none, unless the
  // descriptor is non-blocking (EAGAIN). EINTR after a signal handler without SA_RESTART
  // (FdWaiter); ENODEV in a forked child.
  template <class Taken>
  int Take(Event* event, Taken taken) {
    while (true) {
      if (ForkedChild::Is()) return ENODEV;
      if (const int error = fd_waiter_.AwaitReadable(fd_); error != 0) return error;
      const engine::ScopedCancellationDisable no_cancel;
      const std::lock_guard lock(mutex_);
      if (events_.empty()) continue;  // another thread was faster
      eventfd_t one;
      eventfd_read(fd_, &one);
      *event = std::move(events_.front());
      events_.pop_front();
      taken(*event);
      return 0;
    }
  }

  // Returns the result of `look` for the oldest event, called with the queue locked; false if there
  // is none.
  template <class Look>
  bool LookAtOldest(Look look) {
    const engine::ScopedCancellationDisable no_cancel;
    const std::lock_guard lock(mutex_);
    return !events_.empty() && look(events_.front());
  }

  // Signals the descriptor again for a queued event, for programs that wait for changes only
  // (EPOLLET).
  void TellAgain() {
    const engine::ScopedCancellationDisable no_cancel;
    const std::lock_guard lock(mutex_);
    if (events_.empty()) return;
    eventfd_write(fd_, 1);
    eventfd_t one;
    eventfd_read(fd_, &one);
  }

  // Removes the events for which `unwanted` returns true.
  template <class Unwanted>
  void RemoveIf(Unwanted unwanted) {
    const engine::ScopedCancellationDisable no_cancel;
    const std::lock_guard lock(mutex_);
    for (auto it = events_.begin(); it != events_.end();) {
      if (!unwanted(*it)) {
        ++it;
        continue;
      }
      it = events_.erase(it);
      eventfd_t one;
      if (HasCount()) eventfd_read(fd_, &one);
    }
  }

 private:
  bool HasCount() const { return fd_ >= 0 && !ForkedChild::Is(); }

  int fd_;
  FdWaiter fd_waiter_;
  GatedMutex mutex_;
  std::deque<Event> events_;
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_RUNTIME_EVENT_QUEUE_H_
