#include "nfs/server/outgoing_calls.h"

#include <algorithm>
#include <utility>

namespace pollux::nfs {

OutgoingCalls::OutgoingCalls() : thread_([this] { Work(); }) {}

OutgoingCalls::~OutgoingCalls() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_one();
  }
  thread_.join();
}

bool OutgoingCalls::Post(const Gid& host, Call call) {
  const std::lock_guard lock(mutex_);
  const auto of_host = std::ranges::count(waiting_, host, &Waiting::host);
  if (waiting_.size() == kMaxWaiting || of_host == kMaxWaitingOfHost) return false;
  waiting_.push_back({.host = host, .call = std::move(call)});
  changed_.notify_one();
  return true;
}

void OutgoingCalls::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    if (ending_) return;
    Call call = std::move(waiting_.front().call);
    waiting_.pop_front();
    lock.unlock();
    call();
    lock.lock();
  }
}

}  // namespace pollux::nfs
