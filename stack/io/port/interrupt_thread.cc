// DPDK 22.11 does not yet promise to keep the functions that make an interrupt handle.
#define ALLOW_EXPERIMENTAL_API

#include "stack/io/port/interrupt_thread.h"

#include <rte_interrupts.h>
#include <semaphore.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace pollux::io {
namespace {

// A callback for an event that has already happened. DPDK collects the descriptors that it waits
// for again when one is added, so this callback never runs in the same round as an earlier one.
class InterruptTask {
 public:
  explicit InterruptTask(absl::FunctionRef<void()> work) : work_(work) {
    sem_init(&done_, 0, 0);
    if (event_ < 0 || handle_ == nullptr) return;
    (void)rte_intr_fd_set(handle_, event_);
    (void)rte_intr_type_set(handle_, RTE_INTR_HANDLE_EXT);
  }
  ~InterruptTask() {
    rte_intr_instance_free(handle_);
    if (event_ >= 0) close(event_);
    sem_destroy(&done_);
  }
  InterruptTask(const InterruptTask&) = delete;
  InterruptTask& operator=(const InterruptTask&) = delete;

  // Returns false if there is no descriptor or memory.
  bool RunAndWait() {
    if (event_ < 0 || handle_ == nullptr) return false;
    if (rte_intr_callback_register(handle_, &InterruptTask::Run, this) != 0) return false;
    // A signal handler of the program may end the wait early.
    while (sem_wait(&done_) != 0) {
    }
    (void)rte_intr_callback_unregister_sync(handle_, &InterruptTask::Run, this);
    return true;
  }

 private:
  static void Run(void* argument) {
    auto* task = static_cast<InterruptTask*>(argument);
    eventfd_t happened;
    if (eventfd_read(task->event_, &happened) != 0) return;
    task->work_();
    sem_post(&task->done_);
  }

  absl::FunctionRef<void()> work_;
  sem_t done_;
  int event_ = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
  rte_intr_handle* handle_ = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
};

}  // namespace

void RunOnInterruptThread(absl::FunctionRef<void()> work) {
  if (!InterruptTask(work).RunAndWait()) {
    work();
    return;
  }
  (void)InterruptTask([] {}).RunAndWait();
}

}  // namespace pollux::io
