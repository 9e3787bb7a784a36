#include "abi/progress.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include <utility>

#include "abi/own_thread.h"
#include "abi/pace.h"
#include "stack/engine/clock.h"

namespace pollux::abi {
namespace {

void Rest(Pace::Pause pause) {
  const auto nap = [](int64_t ns) {
    const timespec duration{0, ns};
    nanosleep(&duration, nullptr);
  };
  switch (pause) {
    case Pace::Pause::kNone:
      return;
    case Pace::Pause::kYield:
      sched_yield();
      return;
    case Pace::Pause::kShortNap:
      return nap(Pace::kShortNapNs);
    case Pace::Pause::kNap:
      return nap(Pace::kNapNs);
  }
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
  // A nap is as long as it is meant: of itself the kernel adds 50 us.
  prctl(PR_SET_TIMERSLACK, 1);
  const engine::Clock clock;
  Pace pace(options_.idle, options_.yield_after);
  while (!stop_.load(std::memory_order_relaxed)) {
    const uint64_t now_ns = clock.NowNs();
    const bool due = pace.Due(now_ns, activity_->driven_ns(), activity_->ExpectsSleep());
    if (!due || ownership_->Wanted() || !ownership_->TryAcquire()) {
      Rest(pace.WithoutTurn());
      continue;
    }
    const bool busy = poll_(now_ns);
    ownership_->Release();
    Rest(pace.AfterTurn(busy));
  }
}

void Progress::Stop() {
  stop_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
}

}  // namespace pollux::abi
