#include "nfs/lock/outgoing_calls.h"

#include <algorithm>
#include <utility>

namespace pollux::nfs {

OutgoingCalls::OutgoingCalls() {
  for (size_t i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Work(); });
}

OutgoingCalls::~OutgoingCalls() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
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
    auto next = waiting_.end();
    changed_.wait(lock, [&] {
      next = std::ranges::find_if(
          waiting_, [this](const Waiting& one) { return !called_.contains(one.host); });
      return ending_ || next != waiting_.end();
    });
    if (ending_) return;
    Waiting one = std::move(*next);
    waiting_.erase(next);
    called_.insert(one.host);
    lock.unlock();
    const bool answered = one.call();
    lock.lock();
    called_.erase(one.host);
    if (!answered) {
      std::erase_if(waiting_, [&](const Waiting& other) { return other.host == one.host; });
    }
    changed_.notify_one();
  }
}

}  // namespace pollux::nfs
