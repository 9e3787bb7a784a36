// DPDK telemetry under /pollux/: its thread asks, the worker that owns the answer gives it by its
// mailbox.
#ifndef POLLUX_STACK_ENGINE_TELEMETRY_H_
#define POLLUX_STACK_ENGINE_TELEMETRY_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stack/base/stats.h"
#include "stack/engine/device.h"
#include "stack/engine/loop/worker.h"

namespace pollux::engine {

// One command, /pollux/NAME.
struct Topic {
  enum class Asks : uint8_t {
    kWorker,      // [WORKER[,OBJECT]]: the first worker without
    kObject,      // OBJECT[,WORKER]: the first worker that has it without
    kAllWorkers,  // [OBJECT]: the answers of all in one
  };
  std::string name;
  Asks asks = Asks::kWorker;
  std::string help;
};

// Makes it a command of this process, once however often it is called. Any thread.
void OfferTopic(const Topic& topic);

// How long a worker may take to come round to its mailbox.
inline constexpr std::chrono::milliseconds kAnswerPatience{1000};

// Asks the published workers; `parameters` as they stand after the command's comma. Any thread but
// a worker's own; waits for at most `patience` a worker asked. NotFound for a topic, worker or
// object that is not there, InvalidArgument for parameters that are no numbers, DeadlineExceeded
// when the worker is not polled.
absl::StatusOr<Stats> AskWorkers(std::string_view topic, std::string_view parameters,
                                 std::chrono::milliseconds patience = kAnswerPatience);

// While it lives, its worker answers under a number of its own (0 for the first of a process) and
// offers what every worker tells: workers, worker, ports, port, qps, qp, recorder, memory. Made and
// destroyed on a control thread; the worker outlives it.
class Published {
 public:
  explicit Published(Worker* worker);
  ~Published();
  Published(const Published&) = delete;
  Published& operator=(const Published&) = delete;
  uint32_t number() const { return number_; }

 private:
  uint32_t number_;
};

// Publishes every worker of a device, which outlives it. Held by whoever opens a device for a
// process that others may ask.
class DeviceTelemetry {
 public:
  explicit DeviceTelemetry(Device& device);

 private:
  std::vector<std::unique_ptr<Published>> workers_;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_TELEMETRY_H_
