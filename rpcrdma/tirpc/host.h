// The worker on which a CLIENT or an SVCXPRT runs.
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

// A worker that another thread polls while `keeps` is held, and the CM manager on that worker.
struct Host {
  engine::Worker* worker = nullptr;
  cm::Manager* manager = nullptr;
  std::shared_ptr<void> keeps;
  // Lets waiting threads poll the worker; null: they sleep.
  engine::SharedPoll* shared_poll = nullptr;
  // Optional log of refused messages; called on the worker's core.
  std::function<void(const std::string& line)> log;
};

// A one-time signal from one thread to another.
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

// Waits until the host's core has given the signal. Must not be called on that core.
inline void Await(const Host& host, Signal& signal) {
  if (host.shared_poll == nullptr) return signal.Wait();
  if (host.shared_poll->PollUntil([&signal] { return signal.given(); })) return;
  const engine::SharedPoll::Sleeper sleeper(host.shared_poll);
  signal.Wait();
}

// Runs `work` on the host's core and waits until it has run. Must not be called on that core.
template <class Work>
void RunOn(const Host& host, Work work) {
  // Shared, since the waiting thread may return before Give() does.
  auto done = std::make_shared<Signal>();
  engine::Actor::Post(*host.worker, [&work, done] {
    work();
    done->Give();
  });
  Await(host, *done);
}

}  // namespace pollux::rpcrdma::tirpc

#endif  // POLLUX_RPCRDMA_TIRPC_HOST_H_
