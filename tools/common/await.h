// Waiting, on the main thread, for what the node's core does with a client.
#ifndef POLLUX_TOOLS_COMMON_AWAIT_H_
#define POLLUX_TOOLS_COMMON_AWAIT_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/common/interrupt.h"
#include "tools/common/node.h"
#include "tools/common/progress.h"

namespace pollux::tools {

inline constexpr int kTickMs = 100;
// What is under way when a signal comes may end by itself for so long; then it is cut off, since
// the server may be gone.
inline constexpr int kInterruptGraceMs = 1000;

// Waits for what a call or a row of calls of `client` will put into `future`. `tick` is called ten
// times a second. After an interrupt the client is disconnected, which fails its calls; so it is
// when the interface under the port is gone.
template <class T, class Client, class Tick>
T Await(Node& node, Client& client, std::future<T>& future, Tick tick) {
  int grace_ms = kInterruptGraceMs;
  while (future.wait_for(std::chrono::milliseconds(kTickMs)) != std::future_status::ready) {
    tick();
    if (grace_ms < 0) continue;
    if (Interrupted()) grace_ms -= kTickMs;
    if (!node.device().port().CheckInterface().ok()) grace_ms = -1;
    if (grace_ms < 0) node.Run([&client] { client.Disconnect([] {}); });
  }
  T result = future.get();
  // The last callback may still be unwinding on the core.
  node.Run([] {});
  return result;
}

inline absl::Status InterruptedOr(absl::Status status) {
  return !status.ok() && Interrupted() ? absl::CancelledError("interrupted") : status;
}
template <class T>
absl::StatusOr<T> InterruptedOr(absl::StatusOr<T> result) {
  if (!result.ok() && Interrupted()) return absl::CancelledError("interrupted");
  return result;
}

// Runs one call on the node's core and waits for the Result that it calls back with.
template <class Result, class Client, class Call>
Result Blocking(Node& node, Client& client, Call call) {
  std::promise<Result> promise;
  std::future<Result> future = promise.get_future();
  node.Run([&] { call([&promise](Result result) { promise.set_value(std::move(result)); }); });
  return InterruptedOr(Await(node, client, future, [] {}));
}

// Waits for the end of a row of calls, showing progress.
template <class T, class Client>
T AwaitShowing(Node& node, Client& client, std::future<T>& future,
               const std::atomic<uint64_t>& done, uint64_t total, const Progress& progress) {
  const auto show = [&] {
    if (progress) progress(done.load(std::memory_order_relaxed), total);
  };
  T result = Await(node, client, future, show);
  show();
  return result;
}

template <class Client>
absl::Status AwaitAll(Node& node, Client& client, std::future<absl::Status>& future,
                      const std::atomic<uint64_t>& done, uint64_t total, const Progress& progress) {
  return InterruptedOr(AwaitShowing(node, client, future, done, total, progress));
}

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_AWAIT_H_
