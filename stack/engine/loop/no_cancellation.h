// Keeps a thread from being cancelled in the middle of what it has begun.
#ifndef POLLUX_STACK_ENGINE_LOOP_NO_CANCELLATION_H_
#define POLLUX_STACK_ENGINE_LOOP_NO_CANCELLATION_H_

#include <pthread.h>

namespace pollux::engine {

// Programs cancel threads that sleep in a call of ours (pthread_cancel(3)): they may end there and
// nowhere else, since a system call that is made with a lock held is a cancellation point too.
class NoCancellation {
 public:
  NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() { pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_LOOP_NO_CANCELLATION_H_
