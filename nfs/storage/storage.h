// The threads that access an export's file system, so that the polled core never waits for it:
// threads for blocking calls (open, stat, rename, ...), and an io_uring for file data.
#ifndef POLLUX_NFS_STORAGE_STORAGE_H_
#define POLLUX_NFS_STORAGE_STORAGE_H_

#include <liburing.h>
#include <semaphore.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nfs/export/identity.h"
#include "nfs/procedures/data_calls.h"

struct rte_ring;

namespace pollux::nfs {

// Each export has its own storage, so that a file system that stalls does not delay calls to
// others. Each stalled call occupies one thread; stalled data transfers occupy none.
class Storage {
 public:
  static constexpr uint32_t kThreads = 8;
  static constexpr uint32_t kMaxJobs = 64;  // jobs passed to Run() that are not done
  static constexpr uint32_t kMaxParts = 8;  // parts of a transfer
  // Jobs take precedence over control work, but each kControlTurn-th time a thread looks for
  // control work first, so that it cannot starve.
  static constexpr uint32_t kControlTurn = 4;

  class Job {
   public:
    virtual ~Job() = default;
    // Runs on a storage thread, with that thread's identity. Afterwards the job is done, or it has
    // started a transfer as its last step.
    virtual void Run(Storage& storage, Identity& identity) = 0;
    // Called on the completion thread after a transfer, with the bytes transferred or -errno.
    // Afterwards the job is done.
    virtual void Transferred(int result) = 0;
    // Called on the completion thread during a transfer in parts: the first `bytes` are
    // transferred, and more follow.
    virtual void PartTransferred(int /*bytes*/) {}

   private:
    friend class Storage;
    struct Part {
      Job* job = nullptr;
      int wanted = 0;
      int result = 0;
      bool done = false;
    };
    // Handles the kernel's result of a part.
    void Take(Part& part, int result);
    // The current transfer.
    std::array<Part, kMaxParts> parts_;
    uint32_t part_count_ = 0;
    uint32_t parts_left_ = 0;  // parts that the kernel has not completed
    uint32_t next_part_ = 0;   // all parts before it are counted in moved_
    int moved_ = 0;
    bool ended_ = false;  // a part was short or has failed
  };

  // PermissionDenied if the process may not act for other users; the error of io_uring_setup(2) if
  // that fails.
  static absl::StatusOr<std::unique_ptr<Storage>> Start();
  // All jobs must be done. Waits for the threads.
  ~Storage();

  // Only for one thread; does not block. At most kMaxJobs jobs may be unfinished.
  void Run(Job* job);
  // Runs work of the control path with the server's identity. Returns false if kMaxControlWork
  // items wait already. For any thread except the polled core. Work that has not started is dropped
  // when the storage is destroyed.
  using ControlWork = absl::AnyInvocable<void(Identity&)>;
  static constexpr size_t kMaxControlWork = 256;
  bool RunControl(ControlWork work);
  // The same for a client's call, with a lower limit of kMaxControlCalls: some places are reserved
  // for the server's own work, and a client tries again.
  static constexpr size_t kMaxControlCalls = 128;
  bool RunControlCall(ControlWork work);
  // The amount of control work that is not finished, started or not.
  size_t control_work() const { return control_count_; }
  // Starts a transfer from Job::Run(), with the thread's current identity. The kind must not be
  // kNone, and the parts at most kMaxParts.
  void Begin(const Transfer& transfer, Job* job);

 private:
  struct FreeRing {
    void operator()(rte_ring* ring) const;
  };

  Storage();
  void Work(absl::Status* begun, sem_t* told);
  bool Enqueue(ControlWork work, size_t max_waiting);
  // Return true if there was an item, which has then been run.
  bool RunJob(Identity& identity);
  bool RunOneControl(Identity& identity);
  // Prepares a part, which the kernel starts when the previous parts are done.
  void Prepare(const Transfer& transfer, size_t from, Job::Part& part, bool last);
  void Submit();
  void Complete();

  std::unique_ptr<rte_ring, FreeRing> jobs_;
  // Counts the items in jobs_ and control_, plus one for each thread that must end.
  sem_t waiting_;
  std::mutex control_mutex_;  // never locked by the polled core
  std::deque<ControlWork> control_;
  std::atomic<size_t> control_count_{0};
  std::atomic<bool> ending_{false};
  std::mutex submitting_;
  io_uring uring_ = {};
  std::vector<std::thread> threads_;
  std::thread completions_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_STORAGE_STORAGE_H_
