#include "stack/engine/polling/progress_thread.h"

#include <emmintrin.h>
#include <pthread.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"

namespace pollux::engine {
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

absl::Status Pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(static_cast<unsigned>(cpu), &set);
  const int error = pthread_setaffinity_np(pthread_self(), sizeof set, &set);
  if (error == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("CPU %d: this process may not run there (%s); see `taskset -p $$`", cpu,
                      rte_strerror(error)));
}

}  // namespace

ProgressThread::ProgressThread(const Options& options, Poll poll, SharedPoll* shared)
    : options_(options),
      shared_(shared),
      poll_(std::move(poll)),
      policy_(options.policy),
      activity_(options.activity == nullptr ? &own_activity_ : options.activity),
      ownership_(options.ownership),
      registers_(options.ownership == nullptr) {}

absl::StatusOr<std::unique_ptr<ProgressThread>> ProgressThread::Start(const Options& options,
                                                                      Poll poll) {
  std::unique_ptr<ProgressThread> self(new ProgressThread(options, std::move(poll), nullptr));
  if (absl::Status status = self->Launch(); !status.ok()) return status;
  return self;
}

absl::StatusOr<std::unique_ptr<ProgressThread>> ProgressThread::Start(const Options& options,
                                                                      SimplePoll poll) {
  return Start(options,
               [poll = std::move(poll)](uint64_t now_ns, transport::AckPolicy::Action) mutable {
                 return Found{.work = poll(now_ns)};
               });
}

absl::StatusOr<std::unique_ptr<ProgressThread>> ProgressThread::Start(const Options& options,
                                                                      SharedPoll* shared) {
  Poll poll = [shared](uint64_t now_ns, transport::AckPolicy::Action) {
    return Found{.work = shared->Poll(now_ns)};
  };
  std::unique_ptr<ProgressThread> self(new ProgressThread(options, std::move(poll), shared));
  if (absl::Status status = self->Launch(); !status.ok()) return status;
  return self;
}

absl::Status ProgressThread::Launch() {
  const auto prepared = std::make_shared<std::promise<absl::Status>>();
  std::future<absl::Status> outcome = prepared->get_future();
  const auto run = [this, prepared] {
    const absl::Status status = Prepare();
    prepared->set_value(status);
    if (status.ok()) Run();
    poll_ = nullptr;
    if (status.ok() && registers_) rte_thread_unregister();
  };
  thread_ = options_.start == nullptr ? std::thread(run) : options_.start(run);
  return outcome.get();
}

absl::Status ProgressThread::Prepare() {
  if (options_.cpu.has_value()) {
    if (absl::Status status = Pin(*options_.cpu); !status.ok()) return status;
  }
  // A nap or sleep is as long as it is meant: of itself the kernel adds 50 us.
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  if (!registers_) return absl::OkStatus();
  // The affinity is set first: registering takes note of it.
  if (rte_thread_register() != 0) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("DPDK accepts no more polling threads (%s); at most %d run in a process",
                        rte_strerror(rte_errno), RTE_MAX_LCORE));
  }
  if (shared_ != nullptr) {
    shared_->Begin(rte_lcore_id());
    ownership_ = shared_->ownership();
    activity_ = shared_->activity();
  }
  return absl::OkStatus();
}

// Whether a turn is due and this thread may take it; it is the owner then.
bool ProgressThread::TakesTurn(uint64_t now_ns) {
  announced_ = activity_->announced();
  const bool due = policy_.Due(now_ns, activity_->polled_ns(), activity_->ExpectsSleep());
  return due && (ownership_ == nullptr || (!ownership_->Wanted() && ownership_->TryAcquire()));
}

void ProgressThread::Run() {
  const bool asks_timers =
      options_.policy.idle == Idle::kSleep && options_.next_deadline_ns != nullptr;
  while (!stop_.load(std::memory_order_relaxed)) {
    const uint64_t now_ns = clock_.NowNs();
    if (!TakesTurn(now_ns)) {
      Rest(policy_.WithoutTurn());
      continue;
    }
    const Found found = poll_(now_ns, policy_.acks());
    const uint64_t deadline_ns =
        asks_timers && !found.work ? options_.next_deadline_ns() : UINT64_MAX;
    if (ownership_ != nullptr) ownership_->Release();
    Rest(policy_.AfterTurn(found, deadline_ns));
  }
}

void ProgressThread::Rest(ProgressPolicy::Pause pause) {
  using Pause = ProgressPolicy::Pause;
  switch (pause) {
    case Pause::kNone:
      if (policy_.boost() < boost_) SetBoost(policy_.boost());
      return;
    case Pause::kRelax:
      for (int looks = 0; looks < kRelaxedLooks; ++looks) _mm_pause();
      return;
    case Pause::kYield: {
      SetBoost(SchedulingBoost::kNone);
      const uint64_t before_ns = clock_.NowNs();
      sched_yield();
      policy_.Yielded(clock_.NowNs() - before_ns);
      return;
    }
    case Pause::kNap:
      SetBoost(policy_.boost());
      activity_->Nap(policy_.nap_ns());
      return;
    case Pause::kSleep:
      SetBoost(SchedulingBoost::kNone);
      sleeps_.fetch_add(1, std::memory_order_relaxed);
      activity_->Sleep(policy_.nap_ns(), announced_);
      return;
  }
}

void ProgressThread::SetBoost(SchedulingBoost boost) {
  const SchedulingBoost before = std::exchange(boost_, boost);
  if (before == boost) return;
  std::optional<SchedulingAttributes> attributes = Attributes();
  if (!attributes) return;
  // Whoever has given this thread another value meanwhile has the last word.
  if (before != SchedulingBoost::kAhead || attributes->nice != nice_ahead_) {
    usual_nice_ = attributes->nice;
  }
  attributes->runtime_ns = boost == SchedulingBoost::kNone ? kUsualSlice : kShortSliceNs;
  attributes->nice = usual_nice_;
  if (boost == SchedulingBoost::kAhead && !refused_) {
    nice_ahead_ = std::max(usual_nice_ - kNicerBy, kMinNice);
    attributes->nice = nice_ahead_;
    if (Set(*attributes)) return;
    refused_ = true;
    attributes->nice = usual_nice_;
  }
  Set(*attributes);
}

void ProgressThread::Stop() {
  stop_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
}

}  // namespace pollux::engine
