// The ends of a program without exit(3) or a signal: exec(3) and _exit(2).
#ifndef POLLUX_COMPAT_PROCESS_PROGRAM_END_H_
#define POLLUX_COMPAT_PROCESS_PROGRAM_END_H_

#include "compat/loader/export.h"

// Defined in the library that `pollux run` preloads (loader/program_end.cc); null in programs
// started without it.
POLLUX_EXPORT __attribute__((weak)) void pollux_send_before_program_ends(void (*send)());

namespace pollux::compat {

// Arranges for `send` to be called before exec(3), _exit(2) and quick_exit(3), on the thread that
// calls them. This may be in a signal handler or in a child of this process.
inline void SendBeforeProgramEnds(void (*send)()) {
  if (pollux_send_before_program_ends != nullptr) pollux_send_before_program_ends(send);
}

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_PROCESS_PROGRAM_END_H_
