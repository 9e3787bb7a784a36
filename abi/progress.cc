#include "abi/progress.h"

#include <emmintrin.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <utility>

#include "abi/own_thread.h"

namespace pollux::abi {
namespace {

constexpr int kRelaxedLooks = 16;  // a microsecond or two on any processor

timespec Duration(uint64_t ns) { return {0, static_cast<int64_t>(ns)}; }

}  // namespace

void Activity::Nap(uint64_t ns) {
  napping_.store(1);
  if (!ExpectsSleep()) {
    const timespec duration = Duration(ns);
    syscall(SYS_futex, &napping_, FUTEX_WAIT_PRIVATE, 1, &duration, nullptr, 0);
  }
  napping_.store(0);
}

void Activity::WakeUp() {
  if (napping_.exchange(0) != 0) {
    syscall(SYS_futex, &napping_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
}

Progress::Progress(const Options& options, engine::Ownership* ownership, Activity* activity,
                   std::function<Pace::Found(uint64_t)> poll)
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
      Rest(pace.WithoutTurn(), clock, &pace);
      continue;
    }
    const Pace::Found found = poll_(now_ns);
    ownership_->Release();
    Rest(pace.AfterTurn(found), clock, &pace);
  }
}

void Progress::Rest(Pace::Pause pause, const engine::Clock& clock, Pace* pace) {
  switch (pause) {
    case Pace::Pause::kNone:
      return;
    case Pace::Pause::kRelax:
      for (int looks = 0; looks < kRelaxedLooks; ++looks) _mm_pause();
      return;
    case Pace::Pause::kYield: {
      const uint64_t before_ns = clock.NowNs();
      sched_yield();
      pace->Yielded(clock.NowNs() - before_ns);
      return;
    }
    case Pace::Pause::kNap:
      activity_->Nap(pace->nap_ns());
      return;
  }
}

void Progress::Stop() {
  stop_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
}

}  // namespace pollux::abi
