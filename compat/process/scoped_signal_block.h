// Blocks the program's signals on threads of Pollux.
#ifndef POLLUX_COMPAT_PROCESS_SCOPED_SIGNAL_BLOCK_H_
#define POLLUX_COMPAT_PROCESS_SCOPED_SIGNAL_BLOCK_H_

#include <pthread.h>
#include <signal.h>

#include <initializer_list>

namespace pollux::compat {

// Signals of the program must be delivered to the program's threads: if another thread took a
// signal that the program has blocked in order to wait for it, the program would not receive it,
// and the default action would end the process. While this object exists, its thread and the
// threads that it starts take no signals except those that an instruction of the thread itself
// raises (SIGSEGV, SIGILL and others). No program waits for those, and a blocked one would end the
// process without the program's handler. They also report that the program has unmapped registered
// memory (InstallFatalSignalHandlers()).
class ScopedSignalBlock {
 public:
  ScopedSignalBlock() {
    sigset_t all;
    sigfillset(&all);
    for (const int raised : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS}) {
      sigdelset(&all, raised);
    }
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~ScopedSignalBlock() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  ScopedSignalBlock(const ScopedSignalBlock&) = delete;
  ScopedSignalBlock& operator=(const ScopedSignalBlock&) = delete;

 private:
  sigset_t before_;
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_PROCESS_SCOPED_SIGNAL_BLOCK_H_
