// Threads that the libraries start in a program's process.
#ifndef POLLUX_COMPAT_PROCESS_OWN_THREAD_H_
#define POLLUX_COMPAT_PROCESS_OWN_THREAD_H_

#include <functional>
#include <thread>
#include <utility>

#include "compat/process/program_threads_exit.h"
#include "compat/process/scoped_signal_block.h"

namespace pollux::compat {

// Starts such a thread, which receives no signals of the program. The program may end while it
// runs.
inline std::thread StartWithoutSignals(std::function<void()> run) {
  const ScopedSignalBlock signals_blocked;
  return std::thread([run = std::move(run)] {
    const OwnThread own;
    run();
  });
}

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_PROCESS_OWN_THREAD_H_
