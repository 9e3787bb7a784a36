// Calls that wait for a file system, and a time limit for them.
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

// Each call is either taken with Take(), to be executed, or answered by PutOff on this object's
// thread when its time has passed. The caller limits the number of calls. Thread-safe.
class WaitingCalls {
 public:
  // Answers a call whose time has passed. Must not block.
  using PutOff = absl::AnyInvocable<void()>;

  explicit WaitingCalls(std::chrono::steady_clock::duration timeout);
  // Drops the calls that still wait, without calling PutOff.
  ~WaitingCalls();
  WaitingCalls(const WaitingCalls&) = delete;
  WaitingCalls& operator=(const WaitingCalls&) = delete;

  // Returns the call's number, starting at 1.
  uint64_t Add(PutOff put_off);
  // Returns true if the caller may execute the call now; false if it has been put off.
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
  std::map<uint64_t, Waiting> waiting_;  // in order of arrival
  std::thread thread_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_LOCK_WAITING_CALLS_H_
