// DPDK's interrupt thread, for what must not run beside its callbacks.
#ifndef POLLUX_STACK_IO_PORT_INTERRUPT_THREAD_H_
#define POLLUX_STACK_IO_PORT_INTERRUPT_THREAD_H_

#include "absl/functional/function_ref.h"

namespace pollux::io {

// Runs `work` on DPDK's interrupt thread, between two callbacks. Returns when it is done and so is
// every event that the thread had seen by then: file descriptors that `work` closed may be used
// anew. On the caller's thread where DPDK takes no more callbacks (out of memory or descriptors).
// `work` may block, and unregister callbacks; nothing that a callback needs may be held by the
// caller. EAL is initialised. For control threads, and not for callbacks.
void RunOnInterruptThread(absl::FunctionRef<void()> work);

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_PORT_INTERRUPT_THREAD_H_
