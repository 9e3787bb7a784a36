// What a worker tells of itself, its ports and its objects when it is asked (telemetry).
#ifndef POLLUX_STACK_ENGINE_LOOP_WORKER_STATS_H_
#define POLLUX_STACK_ENGINE_LOOP_WORKER_STATS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "stack/base/report.h"
#include "stack/transport/endpoint.h"

namespace pollux::engine {

class Worker;

// How busy a core is. Turns of the loop, and those in which there was something to do; the time
// from the start of such a turn to the start of the next.
struct CoreCounters {
  uint64_t polls = 0;
  uint64_t busy_polls = 0;
  uint64_t busy_ns = 0;
};

// On the worker's core. It and what lives on its worker answer each query together.
class WorkerStats : public Reporter {
 public:
  explicit WorkerStats(const Worker* worker) : worker_(*worker) {}

  void Add(Reporter* reporter) { reporters_.push_back(reporter); }
  void Remove(Reporter* reporter) { std::erase(reporters_, reporter); }
  bool Tell(const Question& question, Report* report) override;

 private:
  const transport::Endpoint* FindEndpoint(std::optional<uint64_t> qpn) const;
  bool TellSummary(const Question& question, Report* report) const;
  bool TellCore(const Question& question, Report* report) const;
  bool TellPorts(const Question& question, Report* report) const;
  bool TellPort(const Question& question, Report* report) const;
  bool TellQps(const Question& question, Report* report) const;
  bool TellQp(const Question& question, Report* report) const;
  bool TellRecorder(const Question& question, Report* report) const;
  bool TellMemory(const Question& question, Report* report) const;

  const Worker& worker_;
  std::vector<Reporter*> reporters_;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_LOOP_WORKER_STATS_H_
