// The signals of faults and of abort(): replaces pages of registered memory that the program has
// unmapped, and lets Pollux act before one of these signals ends the process.
#ifndef POLLUX_COMPAT_PROCESS_FATAL_SIGNALS_H_
#define POLLUX_COMPAT_PROCESS_FATAL_SIGNALS_H_

namespace pollux::compat {

// An adapter pins the pages of a region until it is deregistered, so it can still access them after
// the program has unmapped them. Pollux cannot pin a program's mapping. Instead, a missing page is
// replaced by an empty one when it is first accessed, and the new page remains; there are at most
// as many as the program had registered. The same applies to a page of a file that was truncated;
// the new page does not belong to the file any more, even if the file grows again.
//
// Call it once per process. From then on, a fault at an address without a mapping (SIGSEGV) or
// beyond the end of a file (SIGBUS) is repaired and the instruction repeated, if `is_registered`
// returns true for the address. A SIGBUS in anonymous memory or inside a file is not repaired: the
// page exists, but cannot be read or stored (an error of the disk or of the swap device, a full
// file system). For a file without a path (memfd, deleted), or if /proc is not mounted, the two
// cases cannot be told apart, and the fault is repaired.
//
// `is_registered` is called in the signal handler, on the faulting thread. It must return false
// unless this thread accesses the memory for Pollux, because faults of the program itself must
// reach the program; only one thread at a time may do so. All other faults are passed to the
// handler that was installed before; a handler that is installed later receives all faults. If
// there was none, `before_end` is called in the handler before the process ends. The same applies
// to SIGABRT, SIGFPE and SIGILL, which are handled only if they have their default action. Returns
// false if the handlers cannot be installed.
bool InstallFatalSignalHandlers(bool (*is_registered)(const void* address), void (*before_end)());

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_PROCESS_FATAL_SIGNALS_H_
