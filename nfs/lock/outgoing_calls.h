// Calls that the server makes of its clients' hosts, on threads of its own: each may wait for a
// host that does not answer.
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

// To a host one after the other, in the order in which they came; to several at once.
class OutgoingCalls {
 public:
  static constexpr size_t kThreads = 8;  // so many silent hosts hold up others
  static constexpr size_t kMaxWaiting = 256;
  static constexpr size_t kMaxWaitingOfHost = 16;  // so that one leaves room for others

  // Whether the host answered: if not, what waits for it is dropped.
  using Call = absl::AnyInvocable<bool()>;

  OutgoingCalls();
  // Waits for the calls under way; the others are not made.
  ~OutgoingCalls();
  OutgoingCalls(const OutgoingCalls&) = delete;
  OutgoingCalls& operator=(const OutgoingCalls&) = delete;

  // False when too many wait. Any thread.
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
  std::set<Gid> called_;  // now
  std::vector<std::thread> threads_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_LOCK_OUTGOING_CALLS_H_
