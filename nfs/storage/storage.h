// The threads on which an export's file system is met, so that the polled core never waits for it:
// some for what blocks (open, stat, rename, ...), and an io_uring for the data.
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

// Each export has its own, so that a file system that stalls holds up no other's calls; and calls
// that stall hold one thread each, data none.
class Storage {
 public:
  static constexpr uint32_t kThreads = 8;
  static constexpr uint32_t kMaxJobs = 64;  // given to Run() and not done
  static constexpr uint32_t kMaxParts = 8;  // of a transfer
  // Jobs go before control work, but not without end: one time in so many each thread looks for
  // control work first.
  static constexpr uint32_t kControlTurn = 4;

  class Job {
   public:
    virtual ~Job() = default;
    // On a storage thread, as its identity. The job is done, or it began a transfer as its last
    // step.
    virtual void Run(Storage& storage, Identity& identity) = 0;
    // After a transfer, on the thread of completions, with the bytes moved or minus the errno. The
    // job is done.
    virtual void Transferred(int result) = 0;
    // During one in parts: its first `bytes` are moved, and there is more to come. On that thread.
    virtual void PartTransferred(int /*bytes*/) {}

   private:
    friend class Storage;
    struct Part {
      Job* job = nullptr;
      int wanted = 0;
      int result = 0;
      bool done = false;
    };
    // Takes what the kernel says of a part.
    void Take(Part& part, int result);
    // Of the transfer in hand.
    std::array<Part, kMaxParts> parts_;
    uint32_t part_count_ = 0;
    uint32_t parts_left_ = 0;  // that the kernel has
    uint32_t next_part_ = 0;   // all before it are in moved_
    int moved_ = 0;
    bool ended_ = false;  // with a part that came short, or failed
  };

  // PermissionDenied when the process may not act for others, what io_uring_setup(2) says when
  // there can be none.
  static absl::StatusOr<std::unique_ptr<Storage>> Start();
  // All jobs are done. Waits for the threads.
  ~Storage();

  // One thread's, which never waits; at most kMaxJobs that are not done.
  void Run(Job* job);
  // Work of the control path, as the server: false when kMaxControlWork waits already. Any thread
  // but the polled core's; work that never began ends with the storage.
  using ControlWork = absl::AnyInvocable<void(Identity&)>;
  static constexpr size_t kMaxControlWork = 256;
  bool RunControl(ControlWork work);
  // The same of a client's call; false also when kMaxControlCalls wait: the server has work of its
  // own to do, and a client asks again.
  static constexpr size_t kMaxControlCalls = 128;
  bool RunControlCall(ControlWork work);
  // Of RunControl(), begun or not.
  size_t control_work() const { return control_count_; }
  // From Job::Run, as whom the thread is. kNone is no transfer to begin. At most kMaxParts.
  void Begin(const Transfer& transfer, Job* job);

 private:
  struct FreeRing {
    void operator()(rte_ring* ring) const;
  };

  Storage();
  void Work(absl::Status* begun, sem_t* told);
  bool Enqueue(ControlWork work, size_t max_waiting);
  // True when there was one, which is done.
  bool RunJob(Identity& identity);
  bool RunOneControl(Identity& identity);
  // One that the kernel is to begin when those before it are done.
  void Prepare(const Transfer& transfer, size_t from, Job::Part& part, bool last);
  void Submit();
  void Complete();

  std::unique_ptr<rte_ring, FreeRing> jobs_;
  // As many as there are in jobs_ and control_, and one for each thread that is to end.
  sem_t waiting_;
  std::mutex control_mutex_;  // never the polled core's
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
