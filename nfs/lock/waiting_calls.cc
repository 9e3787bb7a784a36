#include "nfs/lock/waiting_calls.h"

#include <utility>

namespace pollux::nfs {

WaitingCalls::WaitingCalls(std::chrono::steady_clock::duration timeout)
    : timeout_(timeout), thread_([this] { Work(); }) {}

WaitingCalls::~WaitingCalls() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_one();
  }
  thread_.join();
}

uint64_t WaitingCalls::Add(PutOff put_off) {
  const std::lock_guard lock(mutex_);
  const auto until = std::chrono::steady_clock::now() + timeout_;
  waiting_.emplace(++last_, Waiting{.until = until, .put_off = std::move(put_off)});
  // Else the thread has an earlier one to look after.
  if (waiting_.size() == 1) changed_.notify_one();
  return last_;
}

bool WaitingCalls::Take(uint64_t number) {
  const std::lock_guard lock(mutex_);
  return waiting_.erase(number) > 0;
}

void WaitingCalls::Work() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (waiting_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto until = waiting_.begin()->second.until;
    if (std::chrono::steady_clock::now() < until) {
      changed_.wait_until(lock, until);
      continue;
    }
    PutOff put_off = std::move(waiting_.begin()->second.put_off);
    waiting_.erase(waiting_.begin());
    lock.unlock();
    put_off();
    lock.lock();
  }
}

}  // namespace pollux::nfs
