// The statistics of a worker, its ports and its objects, for telemetry.
#ifndef POLLUX_STACK_ENGINE_LOOP_WORKER_STATS_H_
#define POLLUX_STACK_ENGINE_LOOP_WORKER_STATS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "stack/base/stats.h"
#include "stack/transport/endpoint.h"

namespace pollux::engine {

class Worker;

// The load of a core: turns of the loop, turns with work, and the sum of the times from the start
// of a turn with work to the start of the next turn.
struct CoreCounters {
  uint64_t polls = 0;
  uint64_t busy_polls = 0;
  uint64_t busy_ns = 0;
};

// Used on the worker's core. It and the worker's providers answer each query together.
class WorkerStats : public StatsProvider {
 public:
  explicit WorkerStats(const Worker* worker) : worker_(*worker) {}

  void Add(StatsProvider* provider) { stats_providers_.push_back(provider); }
  void Remove(StatsProvider* provider) { std::erase(stats_providers_, provider); }
  bool Collect(const StatsQuery& query, Stats* stats) override;

 private:
  const transport::Endpoint* FindEndpoint(std::optional<uint64_t> qpn) const;
  bool CollectSummary(const StatsQuery& query, Stats* stats) const;
  bool CollectCore(const StatsQuery& query, Stats* stats) const;
  bool CollectPorts(const StatsQuery& query, Stats* stats) const;
  bool CollectPort(const StatsQuery& query, Stats* stats) const;
  bool CollectQps(const StatsQuery& query, Stats* stats) const;
  bool CollectQp(const StatsQuery& query, Stats* stats) const;
  bool CollectRecorder(const StatsQuery& query, Stats* stats) const;
  bool CollectMemory(const StatsQuery& query, Stats* stats) const;

  const Worker& worker_;
  std::vector<StatsProvider*> stats_providers_;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_LOOP_WORKER_STATS_H_
