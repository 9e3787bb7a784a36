#include "stack/net/interrupt_thread.h"

#include <rte_alarm.h>
#include <rte_interrupts.h>
#include <semaphore.h>

namespace pollux::net {
namespace {

constexpr uint64_t kSoonestUs = 1;

struct Errand {
  absl::FunctionRef<void()> work;
  sem_t done;
};

void Run(void* argument) {
  auto* errand = static_cast<Errand*>(argument);
  errand->work();
  sem_post(&errand->done);
}

}  // namespace

void RunOnInterruptThread(absl::FunctionRef<void()> work) {
  Errand errand{.work = work, .done = {}};
  sem_init(&errand.done, 0, 0);
  if (rte_thread_is_intr() != 0 || rte_eal_alarm_set(kSoonestUs, &Run, &errand) != 0) {
    work();
  } else {
    // Signals of the program's end the wait before its time.
    while (sem_wait(&errand.done) != 0) {
    }
  }
  sem_destroy(&errand.done);
}

}  // namespace pollux::net
