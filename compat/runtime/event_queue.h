// Events that a program takes one by one, or waits for by a file descriptor.
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

// Of a queue that has no descriptor, and from which nothing is taken.
struct NullWaiter {};
inline constexpr NullWaiter kNobodyWaits;

// Any thread. The descriptor is readable while an event waits, and the program's to poll and to
// make non-blocking; one count of it stands for one event. As long as the objects that events are
// about live, each with a handful of events at most, so does the bound of the queue. In a copy of
// the process the events are its own, and the descriptor stays the other's: nothing is taken there.
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

  // Negative when the process had no descriptor left: there is no queue then.
  int fd() const { return fd_; }

  void Push(Event event) {
    const engine::ScopedCancellationDisable no_cancel;
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
    if (!HasCount()) return;
    eventfd_write(fd_, 1);
    fd_waiter_.Ring();
  }

  // 0 with the oldest in `*event`, after `taken(*event)` with the queue locked: no RemoveIf() comes
  // between. Waits while there is none, unless the descriptor is non-blocking (EAGAIN); EINTR after
  // the handlers of signals that let nothing go on (FdWaiter); ENODEV in a copy.
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

  // What `look(event)` says of the oldest, with the queue locked; false when there is none.
  template <class Look>
  bool LookAtOldest(Look look) {
    const engine::ScopedCancellationDisable no_cancel;
    const std::lock_guard lock(mutex_);
    return !events_.empty() && look(events_.front());
  }

  // Has the descriptor tell once more of the event that waits: to who looks for changes of it alone
  // (EPOLLET).
  void TellAgain() {
    const engine::ScopedCancellationDisable no_cancel;
    const std::lock_guard lock(mutex_);
    if (events_.empty()) return;
    eventfd_write(fd_, 1);
    eventfd_t one;
    eventfd_read(fd_, &one);
  }

  // Takes out what `unwanted(event)` says.
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
