// Prevents the cancellation of a thread in the middle of an operation.
#ifndef POLLUX_STACK_ENGINE_POLLING_SCOPED_CANCELLATION_DISABLE_H_
#define POLLUX_STACK_ENGINE_POLLING_SCOPED_CANCELLATION_DISABLE_H_

#include <pthread.h>

namespace pollux::engine {

// Programs cancel threads that sleep in one of our calls (pthread_cancel(3)). A thread may be
// cancelled only while it sleeps there: a system call that is made with a lock held is a
// cancellation point, too.
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
