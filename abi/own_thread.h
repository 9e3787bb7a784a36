// Threads of the libraries' own in a program's process.
#ifndef POLLUX_ABI_OWN_THREAD_H_
#define POLLUX_ABI_OWN_THREAD_H_

#include <functional>
#include <thread>
#include <utility>

#include "abi/last_thread.h"
#include "abi/without_signals.h"

namespace pollux::abi {

// The program may end while it runs.
inline std::thread StartWithoutSignals(std::function<void()> run) {
  const WithoutSignals without_signals;
  return std::thread([run = std::move(run)] {
    const OwnThread own;
    run();
  });
}

}  // namespace pollux::abi

#endif  // POLLUX_ABI_OWN_THREAD_H_
