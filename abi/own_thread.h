// Threads of the libraries' own in a program's process.
#ifndef POLLUX_ABI_OWN_THREAD_H_
#define POLLUX_ABI_OWN_THREAD_H_

#include <pthread.h>
#include <signal.h>

#include <functional>
#include <thread>
#include <utility>

namespace pollux::abi {

// The program's signals are for the program's threads; but that memory is missing which it has
// registered (UseStandInPages()) this one finds out too.
inline std::thread StartWithoutSignals(std::function<void()> run) {
  sigset_t all, before;
  sigfillset(&all);
  sigdelset(&all, SIGSEGV);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(run));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace pollux::abi

#endif  // POLLUX_ABI_OWN_THREAD_H_
