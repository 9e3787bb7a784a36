#include "abi/wait.h"

#include <fcntl.h>
#include <poll.h>

#include <cerrno>

namespace pollux::abi {

std::atomic<uint32_t> sleepers{0};

int AwaitReadable(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return errno;
  pollfd wanted{fd, POLLIN, 0};
  int ready = poll(&wanted, 1, 0);
  if (ready == 0 && (flags & O_NONBLOCK) != 0) return EAGAIN;
  if (ready == 0) {
    sleepers.fetch_add(1, std::memory_order_relaxed);
    ready = poll(&wanted, 1, -1);
    sleepers.fetch_sub(1, std::memory_order_relaxed);
  }
  return ready > 0 ? 0 : errno;
}

}  // namespace pollux::abi
