#include "nfs/storage/storage.h"

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
  io_uring_params params = {};
  params.flags = IORING_SETUP_CQSIZE;
  params.cq_entries = kMaxJobs * kMaxParts;
  const int made = io_uring_queue_init_params(kMaxJobs, &storage->uring_, &params);
  if (made < 0) {
    return absl::ErrnoToStatus(-made,
                               "io_uring, which reads and writes file data, is not available "
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
  const size_t part_bytes = transfer.part_bytes > 0 ? transfer.part_bytes : transfer.to.size();
  job->part_count_ = 0;
  job->next_part_ = 0;
  job->moved_ = 0;
  job->ended_ = false;
  size_t from = 0;
  do {
    const bool last = transfer.to.size() - from <= part_bytes;
    Job::Part& part = job->parts_.at(job->part_count_++);
    part = {.job = job};
    part.wanted = static_cast<int>(last ? transfer.to.size() - from : part_bytes);
    Prepare(transfer, from, part, last);
    from += part_bytes;
  } while (from < transfer.to.size());
  job->parts_left_ = job->part_count_;
  Submit();
}

void Storage::Prepare(const Transfer& transfer, size_t from, Job::Part& part, bool last) {
  io_uring_sqe* const sqe = io_uring_get_sqe(&uring_);  // there are more than parts
  const int fd = transfer.file.get();
  switch (transfer.kind) {
    case Transfer::Kind::kRead:
      io_uring_prep_read(sqe, fd, transfer.to.data() + from, static_cast<unsigned>(part.wanted),
                         transfer.offset + from);
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
  io_uring_sqe_set_data(sqe, &part);
  // By the kernel's workers from the start: they finish it though this thread should stall.
  io_uring_sqe_set_flags(sqe, last ? IOSQE_ASYNC : IOSQE_ASYNC | IOSQE_IO_LINK);
}

// What the kernel has no memory for now it takes later; the entry stays in the ring meanwhile.
void Storage::Submit() {
  constexpr useconds_t kRetryUs = 1000;
  while (io_uring_submit(&uring_) < 0 || io_uring_sq_ready(&uring_) > 0) usleep(kRetryUs);
}

// Behind one that comes short the kernel cancels the others. If it took the parts in two goes, they
// may come in any order, and more may be moved than counts.
void Storage::Job::Take(Part& part, int result) {
  part.result = result;
  part.done = true;
  const uint32_t before = next_part_;
  while (!ended_ && next_part_ < part_count_ && parts_[next_part_].done) {
    const Part& next = parts_[next_part_++];
    ended_ = next.result < next.wanted;
    if (next.result > 0 || moved_ == 0) moved_ += next.result;
  }
  if (--parts_left_ == 0) {
    Transferred(moved_);
  } else if (next_part_ > before && !ended_) {
    PartTransferred(moved_);
  }
}

void Storage::Complete() {
  while (true) {
    io_uring_cqe* cqe = nullptr;
    if (io_uring_wait_cqe(&uring_, &cqe) != 0) continue;  // a signal
    auto* const part = static_cast<Job::Part*>(io_uring_cqe_get_data(cqe));
    const int result = cqe->res;
    io_uring_cqe_seen(&uring_, cqe);
    if (part == nullptr) return;
    // What the thread that began the transfer wrote is seen here: the way through the kernel is
    // none that the memory model knows.
    { const std::lock_guard lock(submitting_); }
    part->job->Take(*part, result);
  }
}

}  // namespace pollux::nfs
