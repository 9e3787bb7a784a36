#include "abi/progress.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#include <utility>

#include "stack/engine/clock.h"

namespace pollux::abi {
namespace {

void Nap() {
  const timespec duration{0, Progress::kNapNs};
  nanosleep(&duration, nullptr);
}

// The program's signals are for the program's threads.
std::thread StartWithoutSignals(std::function<void()> run) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(run));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

Progress::Progress(const Options& options, engine::Ownership* ownership, Activity* activity,
                   std::function<bool(uint64_t)> poll)
    : options_(options),
      ownership_(ownership),
      activity_(activity),
      poll_(std::move(poll)),
      thread_(StartWithoutSignals([this] { Run(); })) {
  if (!options.cpu) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(*options.cpu), &set);
  pthread_setaffinity_np(thread_.native_handle(), sizeof set, &set);
}

void Progress::Run() {
  const engine::Clock clock;
  uint32_t idle = 0;
  while (!stop_.load(std::memory_order_relaxed)) {
    const uint64_t now_ns = clock.NowNs();
    const bool sleep_expected = activity_->ExpectsSleep();
    // Clocks of two CPUs may be a little apart.
    const bool abandoned = now_ns > activity_->driven_ns() + kAbandonedNs;
    if ((!sleep_expected && !abandoned) || ownership_->Wanted() || !ownership_->TryAcquire()) {
      idle = 0;
      if (sleep_expected) {
        sched_yield();
      } else {
        Nap();
      }
      continue;
    }
    const bool busy = poll_(now_ns);
    ownership_->Release();
    idle = busy ? 0 : idle + 1;
    const bool idles = options_.yield_after != 0 && idle > options_.yield_after;
    if (idle > kSpinTurns || (idles && options_.idle == engine::Idle::kSleep)) {
      Nap();
    } else if (idles && options_.idle == engine::Idle::kYield) {
      sched_yield();
    }
  }
}

void Progress::Stop() {
  stop_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
}

}  // namespace pollux::abi
