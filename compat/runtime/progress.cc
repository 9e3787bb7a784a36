#include "compat/runtime/progress.h"

#include <emmintrin.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "compat/process/own_thread.h"

namespace pollux::compat {
namespace {

constexpr int kRelaxedLooks = 16;  // a microsecond or two on any processor

// Of sched_setattr(2), of which the C library knows nothing.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = SCHED_OTHER;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime_ns = 0;
  uint64_t deadline_ns = 0;
  uint64_t period_ns = 0;
};
static_assert(sizeof(SchedulingAttributes) == 48);

constexpr uint64_t kShortSliceNs = 100'000;  // the least that Linux gives
constexpr uint64_t kUsualSlice = 0;
// Two thirds of the CPU, beside a program of the usual value: a message of 1 MiB takes little less
// with nine tenths (10), and a program that computes between its calls would be left with one.
constexpr int kNicerBy = 3;
constexpr int kMinNice = -20;

// Those of the calling thread, where Linux shares the CPU out; not of one that a program has given
// to a real-time or a background class.
std::optional<SchedulingAttributes> Attributes() {
  SchedulingAttributes attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0 ||
      attributes.policy != SCHED_OTHER) {
    return std::nullopt;
  }
  return attributes;
}

// The slice is a wish, which Linux before 6.12 does not look at.
bool Set(SchedulingAttributes attributes) {
  return syscall(SYS_sched_setattr, 0, &attributes, 0) == 0;
}

timespec Duration(uint64_t ns) { return {0, static_cast<int64_t>(ns)}; }

}  // namespace

void Activity::Nap(uint64_t ns) {
  napping_.store(1);
  if (!ExpectsSleep()) Wait(ns);
  napping_.store(0);
}

void Activity::Sleep(uint64_t ns) {
  napping_.store(1);
  Wait(ns);
  napping_.store(0);
}

void Activity::Wait(uint64_t ns) {
  const timespec duration = Duration(ns);
  syscall(SYS_futex, &napping_, FUTEX_WAIT_PRIVATE, 1, &duration, nullptr, 0);
}

void Activity::WakeUp() {
  if (napping_.exchange(0) != 0) {
    syscall(SYS_futex, &napping_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
}

Progress::Progress(const Options& options, engine::Ownership* ownership, Activity* activity,
                   std::function<Pace::Found(uint64_t, bool)> poll)
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
    const Pace::Found found = poll_(now_ns, pace.AwaitsPost());
    ownership_->Release();
    Rest(pace.AfterTurn(found), clock, &pace);
  }
}

void Progress::Rest(Pace::Pause pause, const engine::Clock& clock, Pace* pace) {
  switch (pause) {
    case Pace::Pause::kNone:
      if (pace->standing() < standing_) Stand(pace->standing());
      return;
    case Pace::Pause::kRelax:
      for (int looks = 0; looks < kRelaxedLooks; ++looks) _mm_pause();
      return;
    case Pace::Pause::kYield: {
      Stand(Pace::Standing::kUsual);
      const uint64_t before_ns = clock.NowNs();
      sched_yield();
      pace->Yielded(clock.NowNs() - before_ns);
      return;
    }
    case Pace::Pause::kNap:
      Stand(pace->standing());
      activity_->Nap(pace->nap_ns());
      return;
    case Pace::Pause::kSleep:
      Stand(Pace::Standing::kUsual);
      activity_->Sleep(pace->nap_ns());
      return;
  }
}

void Progress::Stand(Pace::Standing standing) {
  const Pace::Standing before = std::exchange(standing_, standing);
  if (before == standing) return;
  std::optional<SchedulingAttributes> attributes = Attributes();
  if (!attributes) return;
  // Who has given this thread another value meanwhile has the last word.
  if (before != Pace::Standing::kAhead || attributes->nice != nice_ahead_) {
    usual_nice_ = attributes->nice;
  }
  attributes->runtime_ns = standing == Pace::Standing::kUsual ? kUsualSlice : kShortSliceNs;
  attributes->nice = usual_nice_;
  if (standing == Pace::Standing::kAhead && !refused_) {
    nice_ahead_ = std::max(usual_nice_ - kNicerBy, kMinNice);
    attributes->nice = nice_ahead_;
    if (Set(*attributes)) return;
    refused_ = true;
    attributes->nice = usual_nice_;
  }
  Set(*attributes);
}

void Progress::Stop() {
  stop_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
}

}  // namespace pollux::compat
