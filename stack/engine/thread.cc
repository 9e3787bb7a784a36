#include "stack/engine/thread.h"

#include <pthread.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <sched.h>

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

}  // namespace

void PollUntil(const std::atomic<bool>& stop, const PollOptions& options,
               absl::AnyInvocable<bool(uint64_t)>& poll) {
  const Clock clock;
  uint32_t idle = 0;
  while (!stop.load(std::memory_order_relaxed)) {
    if (poll(clock.NowNs())) {
      idle = 0;
    } else if (options.yield_after_idle != 0 && ++idle >= options.yield_after_idle) {
      --idle;
      sched_yield();
    }
  }
}

absl::StatusOr<std::unique_ptr<PollThread>> PollThread::Start(
    const Options& options, absl::AnyInvocable<bool(uint64_t)> poll) {
  std::unique_ptr<PollThread> self(new PollThread());
  std::promise<absl::Status> prepared;
  std::future<absl::Status> outcome = prepared.get_future();
  self->thread_ = std::thread([stop = &self->stop_, options, poll = std::move(poll),
                               prepared = std::move(prepared)]() mutable {
    const absl::Status status = Prepare(options);
    prepared.set_value(status);
    if (!status.ok()) return;
    PollUntil(*stop, options.poll, poll);
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
