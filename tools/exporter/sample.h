// A sample of the statistics of all processes.
#ifndef POLLUX_TOOLS_EXPORTER_SAMPLE_H_
#define POLLUX_TOOLS_EXPORTER_SAMPLE_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "tools/stat/telemetry_client.h"

namespace pollux::tools {

// Returns {"time_ms", "duration_ns", "processes": [as from GatherStat(), without queue pairs, and
// with "connections" if requested], "silent": [{"pid", "file_prefix", "reason"}]}; with "error" if
// no process could be queried. A process that ends meanwhile is left out, and so are the
// connections of a process if they are not read in time.
nlohmann::ordered_json TakeSample(const ProcessChoice& choice, bool connections);

// Takes one sample at a time, since DPDK's telemetry takes few connections; requests that wait
// meanwhile share the next one. Thread-safe.
class Sampler {
 public:
  // Takes a sample, with connections if requested.
  using Take = std::function<nlohmann::ordered_json(bool connections)>;

  explicit Sampler(Take take) : take_(std::move(take)) {}
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // Returns a sample that was begun after the call. A request without connections is also served by
  // a sample with them, so it waits for at most two samples, whatever others request.
  std::shared_ptr<const nlohmann::ordered_json> Sample(bool connections);
  // The number of requests that wait for a sample that another request takes. For tests.
  size_t waiting() const;

 private:
  struct Taken {
    uint64_t number = 0;
    std::shared_ptr<const nlohmann::ordered_json> sample;
  };

  const Take take_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  bool sampling_ = false;
  size_t waiting_ = 0;
  uint64_t begun_ = 0;  // number of the last sample that was begun; the first is 1
  Taken with_connections_, without_connections_;  // the last ones
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_EXPORTER_SAMPLE_H_
