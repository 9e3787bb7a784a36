#include "nfs/server/storage.h"

#include <rte_config.h>
#include <rte_ring.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

namespace pollux::nfs {
namespace {

void WaitFor(sem_t* semaphore) {
  while (sem_wait(semaphore) != 0 && errno == EINTR) {
  }
}

}  // namespace

void Storage::FreeRing::operator()(rte_ring* ring) const { std::free(ring); }

Storage::Storage() {
  constexpr unsigned kSlots = kMaxJobs * 2;  // a ring of kMaxJobs slots would hold one less
  const auto bytes = static_cast<size_t>(rte_ring_get_memsize(kSlots));
  void* memory = std::aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN(bytes, RTE_CACHE_LINE_SIZE));
  if (memory == nullptr) std::abort();  // as operator new without exceptions
  jobs_.reset(static_cast<rte_ring*>(memory));
  rte_ring_init(jobs_.get(), "nfs_storage", kMaxJobs, RING_F_SP_ENQ | RING_F_EXACT_SZ);
  sem_init(&waiting_, 0, 0);
}

absl::StatusOr<std::unique_ptr<Storage>> Storage::Start() {
  std::unique_ptr<Storage> storage(new Storage());
  const int made = io_uring_queue_init(kMaxJobs, &storage->uring_, 0);
  if (made < 0) {
    return absl::ErrnoToStatus(-made,
                               "io_uring, which file data goes through, is not to be had "
                               "(see kernel.io_uring_disabled)");
  }
  storage->completions_ = std::thread([raw = storage.get()] { raw->Complete(); });
  std::vector<absl::Status> begun(kThreads);
  sem_t told;
  sem_init(&told, 0, 0);
  for (absl::Status& status : begun) {
    storage->threads_.emplace_back(
        [raw = storage.get(), &status, &told] { raw->Work(&status, &told); });
  }
  absl::Status all;
  for (uint32_t i = 0; i < kThreads; ++i) WaitFor(&told);
  for (const absl::Status& status : begun) all.Update(status);
  sem_destroy(&told);
  if (!all.ok()) return all;
  return storage;
}

Storage::~Storage() {
  ending_ = true;
  for (size_t i = 0; i < threads_.size(); ++i) sem_post(&waiting_);
  for (std::thread& thread : threads_) thread.join();
  if (completions_.joinable()) {
    // Of no job: the end.
    io_uring_sqe* const sqe = io_uring_get_sqe(&uring_);
    io_uring_prep_nop(sqe);
    io_uring_sqe_set_data(sqe, nullptr);
    Submit();
    completions_.join();
    io_uring_queue_exit(&uring_);
  }
  sem_destroy(&waiting_);
}

void Storage::Run(Job* job) {
  if (rte_ring_sp_enqueue(jobs_.get(), job) != 0) std::abort();  // more than kMaxJobs
  sem_post(&waiting_);
}

void Storage::Work(absl::Status* begun, sem_t* told) {
  Identity identity;
  *begun = identity.Begin();
  const bool can = begun->ok();
  sem_post(told);
  for (uint32_t turn = 1; can; ++turn) {
    WaitFor(&waiting_);
    if (ending_) return;
    if (turn % kControlTurn == 0 && RunOneControl(identity)) continue;
    // There is one for each that was waited for, though others may have taken the one that this
    // thread looked for first.
    while (!RunJob(identity) && !RunOneControl(identity)) {
    }
  }
}

bool Storage::RunJob(Identity& identity) {
  void* job = nullptr;
  if (rte_ring_mc_dequeue(jobs_.get(), &job) != 0) return false;
  static_cast<Job*>(job)->Run(*this, identity);
  return true;
}

bool Storage::RunControl(ControlWork work) { return Enqueue(std::move(work), kMaxControlWork); }

bool Storage::RunControlCall(ControlWork work) {
  return Enqueue(std::move(work), kMaxControlCalls);
}

bool Storage::Enqueue(ControlWork work, size_t max_waiting) {
  {
    const std::lock_guard lock(control_mutex_);
    if (control_.size() >= max_waiting) return false;
    control_.push_back(std::move(work));
    ++control_count_;
  }
  sem_post(&waiting_);
  return true;
}

bool Storage::RunOneControl(Identity& identity) {
  if (control_count_ == 0) return false;
  ControlWork work;
  {
    const std::lock_guard lock(control_mutex_);
    if (control_.empty()) return false;
    work = std::move(control_.front());
    control_.pop_front();
  }
  work(identity);
  --control_count_;
  return true;
}

void Storage::Begin(const Transfer& transfer, Job* job) {
  const std::lock_guard lock(submitting_);
  io_uring_sqe* const sqe = io_uring_get_sqe(&uring_);  // there are as many as jobs
  const int fd = transfer.file.get();
  switch (transfer.kind) {
    case Transfer::Kind::kRead:
      io_uring_prep_read(sqe, fd, transfer.to.data(), static_cast<unsigned>(transfer.to.size()),
                         transfer.offset);
      break;
    case Transfer::Kind::kWrite:
      io_uring_prep_write(sqe, fd, transfer.from.data(),
                          static_cast<unsigned>(transfer.from.size()), transfer.offset);
      sqe->rw_flags = transfer.flags;
      break;
    case Transfer::Kind::kSync:
      io_uring_prep_fsync(sqe, fd, 0);
      break;
    case Transfer::Kind::kNone:
      io_uring_prep_nop(sqe);
      break;
  }
  io_uring_sqe_set_data(sqe, job);
  // By the kernel's workers from the start: they finish it though this thread should stall.
  io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
  Submit();
}

// What the kernel has no memory for now it takes later; the entry stays in the ring meanwhile.
void Storage::Submit() {
  constexpr useconds_t kRetryUs = 1000;
  while (io_uring_submit(&uring_) < 0) usleep(kRetryUs);
}

void Storage::Complete() {
  while (true) {
    io_uring_cqe* cqe = nullptr;
    if (io_uring_wait_cqe(&uring_, &cqe) != 0) continue;  // a signal
    auto* const job = static_cast<Job*>(io_uring_cqe_get_data(cqe));
    const int result = cqe->res;
    io_uring_cqe_seen(&uring_, cqe);
    if (job == nullptr) return;
    // What the thread that began the transfer wrote is seen here: the way through the kernel is
    // none that the memory model knows.
    { const std::lock_guard lock(submitting_); }
    job->Transferred(result);
  }
}

}  // namespace pollux::nfs
