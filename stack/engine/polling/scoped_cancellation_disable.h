// Keeps a thread from being cancelled in the middle of what it has begun.
#ifndef POLLUX_STACK_ENGINE_POLLING_SCOPED_CANCELLATION_DISABLE_H_
#define POLLUX_STACK_ENGINE_POLLING_SCOPED_CANCELLATION_DISABLE_H_

#include <pthread.h>

namespace pollux::engine {

// Programs cancel threads that sleep in a call of ours (pthread_cancel(3)): they may end there and
// nowhere else, since a system call that is made with a lock held is a cancellation point too.
class ScopedCancellationDisable {
 public:
  ScopedCancellationDisable() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~ScopedCancellationDisable() { pthread_setcancelstate(before_, nullptr); }
  ScopedCancellationDisable(const ScopedCancellationDisable&) = delete;
  ScopedCancellationDisable& operator=(const ScopedCancellationDisable&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_POLLING_SCOPED_CANCELLATION_DISABLE_H_
