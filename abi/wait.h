// Waiting for a descriptor on behalf of a program, while somebody else polls the port.
#ifndef POLLUX_ABI_WAIT_H_
#define POLLUX_ABI_WAIT_H_

namespace pollux::abi {

// 0 once `fd` is readable; EAGAIN at once when it is not and has O_NONBLOCK; EINTR for a signal;
// EBADF.
int AwaitReadable(int fd);

}  // namespace pollux::abi

#endif  // POLLUX_ABI_WAIT_H_
