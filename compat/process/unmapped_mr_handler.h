// Pages that stand in for memory which a program has taken away while it is registered.
#ifndef POLLUX_COMPAT_PROCESS_UNMAPPED_MR_HANDLER_H_
#define POLLUX_COMPAT_PROCESS_UNMAPPED_MR_HANDLER_H_

namespace pollux::compat {

// An adapter holds the pages of a region until it is deregistered: that a program has freed them
// does not keep it from writing there. Nobody can hold another's mapping, so here a page that is
// missing is put in its place, empty, when it is first touched, and stays: at most as many as the
// program had registered. So is a page of a file that is shorter by now, which then is the file's
// no more, should that grow again.
//
// From now on, once in a process, a fault at an address where nothing is mapped (SIGSEGV), or
// nothing is in the file (SIGBUS), and of which `is_registered` says so is mended and the
// instruction repeated. `is_registered` is called on the faulting thread, in its signal handler,
// and says no unless this thread touches the memory on Pollux's account: a program's own faults are
// its own. They go to whoever took the signal before; who takes it after this has all of them. One
// that nobody took ends the process: before that, in the handler, `before_end` is called. False
// when the signals could not be had.
bool InstallUnmappedMrHandler(bool (*is_registered)(const void* address), void (*before_end)());

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_PROCESS_UNMAPPED_MR_HANDLER_H_
