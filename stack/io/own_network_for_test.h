// Network interfaces of a test's own.
#ifndef POLLUX_STACK_IO_OWN_NETWORK_FOR_TEST_H_
#define POLLUX_STACK_IO_OWN_NETWORK_FOR_TEST_H_

#include <sched.h>

#include <cstdlib>

namespace pollux::io {

// Takes this process to a network namespace of its own, once, with the loopback interface up:
// Bazel's sandbox gives tests one, but not everywhere is there a sandbox (in containers without
// user namespaces there is none). Threads that run already stay behind, EAL's too. False without
// the right.
inline bool EnterOwnNetwork() {
  static const bool entered =
      unshare(CLONE_NEWNET) == 0 && std::system("ip link set lo up >&2") == 0;
  return entered;
}

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_OWN_NETWORK_FOR_TEST_H_
