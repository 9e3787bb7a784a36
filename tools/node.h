// One side of a connection as the command line runs it: a device, its connection manager, and the
// thread that polls them.
#ifndef POLLUX_TOOLS_NODE_H_
#define POLLUX_TOOLS_NODE_H_

#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cm/manager.h"
#include "stack/engine/device.h"
#include "stack/engine/driver.h"
#include "stack/engine/report.h"
#include "stack/engine/thread.h"

namespace pollux::tools {

class Node {
 public:
  struct Options {
    std::optional<int> cpu;
    engine::Idle idle = engine::Idle::kYield;
    uint32_t idle_turns = 256;  // without work, before that
    bool shared = false;        // threads that wait for its worker drive it: see driver()
    cm::ManagerConfig cm;
  };

  // Takes over an open device and begins to poll it.
  static absl::StatusOr<std::unique_ptr<Node>> Start(std::unique_ptr<engine::Device> device,
                                                     const Options& options);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  engine::Device& device() { return *device_; }
  // Null without Options::shared.
  engine::Driver* driver() { return driver_.get(); }
  // The worker's core only.
  cm::Manager& manager() { return *manager_; }

  // Runs `work` on the worker's core and returns its result. Not from the worker's core itself.
  template <class Work>
  auto Run(Work work) -> std::invoke_result_t<Work> {
    using Result = std::invoke_result_t<Work>;
    std::promise<Result> promise;
    std::future<Result> future = promise.get_future();
    engine::Party::Post(device_->worker(), [&promise, work = std::move(work)]() mutable {
      if constexpr (std::is_void_v<Result>) {
        work();
        promise.set_value();
      } else {
        promise.set_value(work());
      }
    });
    return future.get();
  }

  // Ends the polling. What runs on the core must be gone; the manager goes here.
  void StopPolling();

 private:
  // Adds to what the worker tells of its core what its thread knows.
  class ThreadReporter : public engine::Reporter {
   public:
    explicit ThreadReporter(const Node* node) : node_(node) {}
    bool Tell(const engine::Question& question, engine::Report* report) override;

   private:
    const Node* node_;
  };

  Node() = default;
  ThreadReporter reporter_{this};
  std::unique_ptr<engine::Device> device_;
  std::unique_ptr<cm::Manager> manager_;
  std::unique_ptr<engine::Driver> driver_;
  std::unique_ptr<engine::PollThread> thread_;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_NODE_H_
