// DPDK's interrupt thread, for what must not run beside its callbacks.
#ifndef POLLUX_STACK_NET_INTERRUPT_THREAD_H_
#define POLLUX_STACK_NET_INTERRUPT_THREAD_H_

#include "absl/functional/function_ref.h"

namespace pollux::net {

// Runs `work` on DPDK's interrupt thread and returns when it is done: between two callbacks, on the
// thread of the caller if that is the one. On the caller's, too, where DPDK has no memory for an
// alarm. `work` may block, and nothing that a callback needs may be held by the caller. EAL is
// initialised. For control threads: the packet path waits for nobody.
void RunOnInterruptThread(absl::FunctionRef<void()> work);

}  // namespace pollux::net

#endif  // POLLUX_STACK_NET_INTERRUPT_THREAD_H_
