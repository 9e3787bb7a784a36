// A network namespace for a test.
#ifndef POLLUX_STACK_IO_OWN_NETWORK_FOR_TEST_H_
#define POLLUX_STACK_IO_OWN_NETWORK_FOR_TEST_H_

#include <sched.h>

#include <cstdlib>

namespace pollux::io {

// Moves this process to a new network namespace, once, and brings its loopback interface up.
// Bazel's sandbox does the same for tests, but it is not available everywhere (not in containers
// without user namespaces). Threads that already run, EAL's included, stay in the old namespace.
// Returns false without the privilege.
inline bool EnterOwnNetwork() {
  static const bool entered =
      unshare(CLONE_NEWNET) == 0 && std::system("ip link set lo up >&2") == 0;
  return entered;
}

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_OWN_NETWORK_FOR_TEST_H_
