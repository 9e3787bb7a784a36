// What the program's signals may not interrupt, or may not reach.
#ifndef POLLUX_COMPAT_PROCESS_SCOPED_SIGNAL_BLOCK_H_
#define POLLUX_COMPAT_PROCESS_SCOPED_SIGNAL_BLOCK_H_

#include <pthread.h>
#include <signal.h>

#include <initializer_list>

namespace pollux::compat {

// The program's signals are for the program's threads: who blocks one to wait for it would not get
// it, and would end by it. No thread that is started while this lives takes any, and this thread
// takes none as long; but that memory is missing which the program has registered
// (InstallUnmappedMrHandler()) these find out too. What an instruction of a thread itself raises
// (SIGILL and so on) is no program's to wait for, and blocked it would end the process without the
// program's handler.
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
