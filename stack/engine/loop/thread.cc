#include "stack/engine/loop/thread.h"

#include <pthread.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include <future>
#include <utility>

#include "absl/strings/str_format.h"

namespace pollux::engine {
namespace {

absl::Status Prepare(const PollThread::Options& options) {
  if (options.cpu.has_value()) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (*options.cpu >= 0 && *options.cpu < CPU_SETSIZE) CPU_SET(*options.cpu, &set);
    if (const int error = pthread_setaffinity_np(pthread_self(), sizeof set, &set); error != 0) {
      return absl::InvalidArgumentError(
          absl::StrFormat("CPU %d: this process may not run there (%s); see `taskset -p $$`",
                          *options.cpu, rte_strerror(error)));
    }
  }
  // The affinity is set first: registering takes note of it.
  if (rte_thread_register() != 0) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "DPDK does not take one more polling thread (%s); at most %d run in a process",
        rte_strerror(rte_errno), RTE_MAX_LCORE));
  }
  return absl::OkStatus();
}

uint64_t NextDeadline(const PollOptions& options) {
  return options.next_deadline_ns == nullptr ? UINT64_MAX : options.next_deadline_ns();
}

void Sleep(uint64_t length_ns, std::atomic<uint64_t>& sleeps) {
  if (length_ns == 0) return;
  sleeps.fetch_add(1, std::memory_order_relaxed);
  // Of less than a second.
  const timespec length{0, static_cast<long>(length_ns)};
  nanosleep(&length, nullptr);
}

}  // namespace

void PollUntil(const std::atomic<bool>& stop, const PollOptions& options,
               absl::AnyInvocable<bool(uint64_t)>& poll, std::atomic<uint64_t>& sleeps) {
  const Clock clock;
  const bool spins = options.idle == Idle::kSpin || options.idle_turns == 0;
  // The kernel adds 50 us to each sleep otherwise.
  if (options.idle == Idle::kSleep) prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  SleepLength length;
  uint32_t idle = 0;
  while (!stop.load(std::memory_order_relaxed)) {
    if (poll(clock.NowNs())) {
      idle = 0;
      length.Reset();
    } else if (!spins && ++idle >= options.idle_turns) {
      --idle;
      if (options.idle == Idle::kYield) {
        sched_yield();
      } else {
        Sleep(length.Next(clock.NowNs(), NextDeadline(options)), sleeps);
      }
    }
  }
}

absl::StatusOr<std::unique_ptr<PollThread>> PollThread::Start(
    const Options& options, absl::AnyInvocable<bool(uint64_t)> poll) {
  std::unique_ptr<PollThread> self(new PollThread());
  std::promise<absl::Status> prepared;
  std::future<absl::Status> outcome = prepared.get_future();
  self->thread_ = std::thread([stop = &self->stop_, sleeps = &self->sleeps_, options,
                               poll = std::move(poll), prepared = std::move(prepared)]() mutable {
    const absl::Status status = Prepare(options);
    prepared.set_value(status);
    if (!status.ok()) return;
    PollUntil(*stop, options.poll, poll, *sleeps);
    poll = nullptr;
    rte_thread_unregister();
  });
  if (absl::Status status = outcome.get(); !status.ok()) return status;
  return self;
}

void PollThread::Stop() {
  stop_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
}

}  // namespace pollux::engine
