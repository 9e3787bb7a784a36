// One side of a connection in a command: a device, and for each of its workers a connection manager
// and the thread that polls both.
#ifndef POLLUX_TOOLS_COMMON_NODE_H_
#define POLLUX_TOOLS_COMMON_NODE_H_

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cm/manager.h"
#include "stack/base/stats.h"
#include "stack/engine/device.h"
#include "stack/engine/polling/progress_thread.h"
#include "stack/engine/polling/shared_poll.h"
#include "stack/engine/telemetry.h"
#include "stack/transport/diagnostics/counters.h"
#include "tools/common/failure_log.h"
#include "tools/common/line_log.h"

namespace pollux::tools {

class Node {
 public:
  struct Options {
    std::vector<int> cpus;  // one for each worker; empty: any
    engine::Idle idle = engine::Idle::kYield;
    uint32_t idle_turns = 256;    // turns without work before a thread idles
    bool shared = false;          // threads that wait for the only worker poll it: shared_poll()
    bool failure_events = false;  // the last events of failed connections are logged
    cm::ManagerConfig cm;
  };

  // Takes ownership of an open device and starts to poll it. Errors are those of
  // cm::Manager::CreateAll() and engine::ProgressThread; InvalidArgument if the numbers of CPUs and
  // workers differ.
  static absl::StatusOr<std::unique_ptr<Node>> Start(std::unique_ptr<engine::Device> device,
                                                     const Options& options);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  engine::Device& device() { return *device_; }
  // For messages from the workers' cores.
  LineLog& log() { return log_; }
  // Null unless Options::shared is set.
  engine::SharedPoll* shared_poll() { return shared_poll_.get(); }
  // Workers have the numbers 0 to cores() - 1. Use a worker only on its own core.
  uint32_t cores() const { return device_->workers(); }
  engine::Worker& worker(uint32_t core = 0) { return device_->worker(core); }
  cm::Manager& manager(uint32_t core = 0) { return *managers_[core]; }
  FailureLog& failures(uint32_t core = 0) { return *failures_[core]; }

  // Runs `work` on a worker's core and returns its result. Must not be called on a worker's core.
  template <class Work>
  auto Run(Work work) -> std::invoke_result_t<Work> {
    return Run(0, std::move(work));
  }
  template <class Work>
  auto Run(uint32_t core, Work work) -> std::invoke_result_t<Work> {
    using Result = std::invoke_result_t<Work>;
    std::promise<Result> promise;
    std::future<Result> future = promise.get_future();
    engine::Actor::Post(worker(core), [&promise, work = std::move(work)]() mutable {
      if constexpr (std::is_void_v<Result>) {
        work();
        promise.set_value();
      } else {
        promise.set_value(work());
      }
    });
    return future.get();
  }
  // Runs `work(core)` on each worker's core, one after the other.
  template <class Work>
  void RunOnEach(Work work) {
    for (uint32_t core = 0; core < cores(); ++core) Run(core, [&work, core] { work(core); });
  }

  // The counters of its only port, summed over all workers. Must not be called on a worker's core.
  transport::Counters Counters();
  // Returns the first of a host's addresses, at least one, to which the port has a route. If there
  // is none, returns the first address, which the error of a later call then names. Must not be
  // called on a worker's core.
  Gid FirstReachable(const std::vector<Gid>& addresses);

  // Stops the polling and destroys the managers. Everything else that runs on the cores must have
  // been destroyed.
  void StopPolling();

 private:
  // Adds the statistics of a worker's thread to those of the worker.
  class ThreadStatsProvider : public StatsProvider {
   public:
    explicit ThreadStatsProvider(const engine::ProgressThread* thread) : thread_(thread) {}
    bool Collect(const StatsQuery& query, pollux::Stats* stats) override;

   private:
    const engine::ProgressThread* thread_;
  };

  Node() = default;
  absl::Status StartThread(uint32_t core, const Options& options);

  LineLog log_;
  std::unique_ptr<engine::Device> device_;
  std::optional<engine::DeviceTelemetry> telemetry_;
  std::vector<std::unique_ptr<FailureLog>> failures_;
  std::vector<std::unique_ptr<cm::Manager>> managers_;
  std::unique_ptr<engine::SharedPoll> shared_poll_;
  std::vector<std::unique_ptr<engine::ProgressThread>> threads_;
  std::vector<std::unique_ptr<ThreadStatsProvider>> stats_providers_;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_NODE_H_
