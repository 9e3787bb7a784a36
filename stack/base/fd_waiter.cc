#include "stack/base/fd_waiter.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

namespace pollux {
namespace {

// While `*word` is `value`: 0, or an errno. Has nothing to give back should the thread be
// cancelled, which syscall(2) does not see to by itself.
int Sleep(std::atomic<uint32_t>* word, uint32_t value) {
  int before;
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
  const int64_t result = syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
  const int error = result == 0 ? 0 : errno;
  pthread_setcanceltype(before, nullptr);
  return error;
}

}  // namespace

int IsReadable(int fd) {
  pollfd wanted{fd, POLLIN, 0};
  int ready;
  // It looks for signals before it says that there is nothing, also where it is not to wait.
  do ready = poll(&wanted, 1, 0);
  while (ready < 0 && errno == EINTR);
  return ready;
}

int FdWaiter::AwaitReadable(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return errno;
  int ready = IsReadable(fd);
  if (ready == 0 && (flags & O_NONBLOCK) != 0) return EAGAIN;
  while (ready == 0) {
    const uint32_t rung = rung_.fetch_or(kAsleep, std::memory_order_seq_cst) | kAsleep;
    ready = IsReadable(fd);
    if (ready == 0 && Sleep(&rung_, rung) == EINTR) return EINTR;
  }
  return ready > 0 ? 0 : errno;
}

void FdWaiter::WakeAll() {
  // Of two at once the second leaves kAsleep set: somebody is woken for nothing some time.
  rung_.fetch_add(kAsleep, std::memory_order_relaxed);
  syscall(SYS_futex, &rung_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace pollux
