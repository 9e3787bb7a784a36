// DPDK telemetry under /pollux/. The telemetry thread passes each request through the mailbox to
// the worker that owns the data, and waits for its reply.
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

// One command, /pollux/NAME, and its parameters.
struct Topic {
  enum class Asks : uint8_t {
    kWorker,      // [WORKER[,OBJECT]]; default: the first worker
    kObject,      // OBJECT[,WORKER]; default: the first worker that has the object
    kAllWorkers,  // [OBJECT]; the replies of all workers, merged
  };
  std::string name;
  Asks asks = Asks::kWorker;
  std::string help;
};

// Registers the command with telemetry; repeated calls have no effect. Thread-safe.
void OfferTopic(const Topic& topic);

// The most time that a worker may take to reach its mailbox.
inline constexpr std::chrono::milliseconds kReplyTimeout{1000};

// Asks the published workers. `parameters` is the text after the command's comma. May be called on
// any thread but a worker's own; waits at most `timeout` per worker. Errors: NotFound for an
// unknown topic, worker or object, InvalidArgument for parameters that are not numbers,
// DeadlineExceeded if the worker is not polled.
absl::StatusOr<Stats> AskWorkers(std::string_view topic, std::string_view parameters,
                                 std::chrono::milliseconds timeout = kReplyTimeout);

// Makes a worker answer telemetry while this object exists, under a number of its own (0 for the
// first of a process), and offers the common topics: workers, worker, ports, port, qps, qp,
// recorder, memory. Create and destroy it on a control thread; the worker must outlive it.
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

// Publishes every worker of a device, which must outlive this object. For programs that want
// telemetry.
class DeviceTelemetry {
 public:
  explicit DeviceTelemetry(Device& device);

 private:
  std::vector<std::unique_ptr<Published>> workers_;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_TELEMETRY_H_
