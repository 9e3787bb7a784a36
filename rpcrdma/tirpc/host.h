// Where a CLIENT or an SVCXPRT does its work.
#ifndef POLLUX_RPCRDMA_TIRPC_HOST_H_
#define POLLUX_RPCRDMA_TIRPC_HOST_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "cm/manager.h"
#include "stack/engine/loop/worker.h"
#include "stack/engine/polling/shared_poll.h"

namespace pollux::rpcrdma::tirpc {

// A worker that some other thread polls for as long as `keeps` is held, and the CM manager on it.
struct Host {
  engine::Worker* worker = nullptr;
  cm::Manager* manager = nullptr;
  std::shared_ptr<void> keeps;
  // By which threads that wait poll too; null: they sleep.
  engine::SharedPoll* shared_poll = nullptr;
  // Of what peers sent that was refused; on the worker's core. Optional.
  std::function<void(const std::string& line)> log;
};

// Something that one thread waits for and another says, once.
class Signal {
 public:
  void Give() {
    given_.store(true, std::memory_order_release);
    given_.notify_one();
  }
  bool given() const { return given_.load(std::memory_order_acquire); }
  void Wait() { given_.wait(false, std::memory_order_acquire); }

 private:
  std::atomic<bool> given_{false};
};

// Returns when what runs on the host's core has given the signal. Not from that core.
inline void Await(const Host& host, Signal& signal) {
  if (host.shared_poll == nullptr) return signal.Wait();
  if (host.shared_poll->PollUntil([&signal] { return signal.given(); })) return;
  const engine::SharedPoll::Sleeper sleeper(host.shared_poll);
  signal.Wait();
}

// Runs `work` on the host's core and returns when it has run. Not from that core.
template <class Work>
void RunOn(const Host& host, Work work) {
  // Shared: who waits may be gone while Give() still returns.
  auto done = std::make_shared<Signal>();
  engine::Actor::Post(*host.worker, [&work, done] {
    work();
    done->Give();
  });
  Await(host, *done);
}

}  // namespace pollux::rpcrdma::tirpc

#endif  // POLLUX_RPCRDMA_TIRPC_HOST_H_
