// The ends of a program that exit(3) and signals do not announce: another one in its place (exec),
// or _exit(2).
#ifndef POLLUX_COMPAT_PROCESS_PROGRAM_END_H_
#define POLLUX_COMPAT_PROCESS_PROGRAM_END_H_

#include "compat/loader/export.h"

// Of the library that `pollux run` preloads, loader/program_end.cc; null in programs that were
// started without it.
POLLUX_EXPORT __attribute__((weak)) void pollux_send_before_program_ends(void (*send)());

namespace pollux::compat {

// Has `send` called before exec(3), _exit(2) and quick_exit(3), on the calling thread, in a signal
// handler or in a child of this process perhaps.
inline void SendBeforeProgramEnds(void (*send)()) {
  if (pollux_send_before_program_ends != nullptr) pollux_send_before_program_ends(send);
}

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_PROCESS_PROGRAM_END_H_
