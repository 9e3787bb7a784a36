// Waits on the main thread for a client's calls, which run on the node's core.
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
// After an interrupt, calls in progress may continue for this long; then the connection is ended,
// because the server may be gone.
inline constexpr int kInterruptGraceMs = 1000;

// Waits for `future`, which one or more calls of `client` will set. `tick` is called ten times per
// second. After an interrupt, or if the port's interface is gone, the client is disconnected, which
// makes its calls fail.
template <class T, class Client, class Tick>
T Await(Node& node, Client& client, std::future<T>& future, Tick tick) {
  int grace_ms = kInterruptGraceMs;
  while (future.wait_for(std::chrono::milliseconds(kTickMs)) != std::future_status::ready) {
    tick();
    if (grace_ms < 0) continue;
    if (Interrupted()) grace_ms -= kTickMs;
    if (!node.device().CheckInterface().ok()) grace_ms = -1;
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

// Runs one call on the node's core, and waits for and returns the Result that it passes to its
// callback.
template <class Result, class Client, class Call>
Result Blocking(Node& node, Client& client, Call call) {
  std::promise<Result> promise;
  std::future<Result> future = promise.get_future();
  node.Run([&] { call([&promise](Result result) { promise.set_value(std::move(result)); }); });
  return InterruptedOr(Await(node, client, future, [] {}));
}

// Waits for the end of a series of calls and shows its progress.
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
