// Calls from the server to hosts of its clients. They have their own threads, because each may wait
// for a host that does not answer.
#ifndef POLLUX_NFS_LOCK_OUTGOING_CALLS_H_
#define POLLUX_NFS_LOCK_OUTGOING_CALLS_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "stack/base/types.h"

namespace pollux::nfs {

// Each host gets one call at a time, in the order of Post(); several hosts are called at once.
class OutgoingCalls {
 public:
  static constexpr size_t kThreads = 8;  // this many silent hosts delay calls to others
  static constexpr size_t kMaxWaiting = 256;
  static constexpr size_t kMaxWaitingOfHost = 16;  // so that one host leaves space for others

  // Returns whether the host has answered. If not, the calls that wait for it are dropped.
  using Call = absl::AnyInvocable<bool()>;

  OutgoingCalls();
  // Waits for the calls in progress and drops the others.
  ~OutgoingCalls();
  OutgoingCalls(const OutgoingCalls&) = delete;
  OutgoingCalls& operator=(const OutgoingCalls&) = delete;

  // Returns false if too many calls wait. Thread-safe.
  bool Post(const Gid& host, Call call);

 private:
  struct Waiting {
    Gid host;
    Call call;
  };
  void Work();

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::deque<Waiting> waiting_;
  std::set<Gid> called_;  // the hosts that are being called now
  std::vector<std::thread> threads_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_LOCK_OUTGOING_CALLS_H_
