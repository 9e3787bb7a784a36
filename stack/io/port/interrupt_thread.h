// Runs code on DPDK's interrupt thread, so that it cannot run at the same time as a callback.
#ifndef POLLUX_STACK_IO_PORT_INTERRUPT_THREAD_H_
#define POLLUX_STACK_IO_PORT_INTERRUPT_THREAD_H_

#include "absl/functional/function_ref.h"

namespace pollux::io {

// Runs `work` on DPDK's interrupt thread, between two callbacks. Returns when it is done and all
// events that the thread had seen by then are handled, so that the numbers of file descriptors that
// `work` closed can be reused. If DPDK accepts no more callbacks (out of memory or descriptors),
// runs `work` on the caller's thread. `work` may block and may unregister callbacks; the caller
// must hold nothing that a callback needs. EAL must be initialised. For control threads; not to be
// called from a callback.
void RunOnInterruptThread(absl::FunctionRef<void()> work);

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_PORT_INTERRUPT_THREAD_H_
