// Calls that wait for a file system, and how long they do.
#ifndef POLLUX_NFS_LOCK_WAITING_CALLS_H_
#define POLLUX_NFS_LOCK_WAITING_CALLS_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>

#include "absl/functional/any_invocable.h"

namespace pollux::nfs {

// Each is begun by who can, or put off by a thread of its own, whichever comes first. As many wait
// as who adds them lets. Any thread.
class WaitingCalls {
 public:
  // Answers a call that is not waited for any longer. Must not wait.
  using PutOff = absl::AnyInvocable<void()>;

  explicit WaitingCalls(std::chrono::steady_clock::duration timeout);
  // Puts off no more: what waits still is dropped.
  ~WaitingCalls();
  WaitingCalls(const WaitingCalls&) = delete;
  WaitingCalls& operator=(const WaitingCalls&) = delete;

  // The call's number, from 1.
  uint64_t Add(PutOff put_off);
  // Whether the call is the caller's now; false when it has been put off.
  bool Take(uint64_t number);

 private:
  struct Waiting {
    std::chrono::steady_clock::time_point until;
    PutOff put_off;
  };
  void Work();

  const std::chrono::steady_clock::duration timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  uint64_t last_ = 0;
  std::map<uint64_t, Waiting> waiting_;  // in the order in which they came
  std::thread thread_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_LOCK_WAITING_CALLS_H_
