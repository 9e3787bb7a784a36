#include "abi/wait.h"

#include <fcntl.h>
#include <poll.h>

#include <cerrno>

namespace pollux::abi {

int AwaitReadable(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return errno;
  pollfd wanted{fd, POLLIN, 0};
  int ready = poll(&wanted, 1, 0);
  if (ready == 0 && (flags & O_NONBLOCK) != 0) return EAGAIN;
  if (ready == 0) ready = poll(&wanted, 1, -1);
  return ready > 0 ? 0 : errno;
}

}  // namespace pollux::abi
