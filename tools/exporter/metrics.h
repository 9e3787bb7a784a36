// What running processes tell of themselves, as Prometheus's metrics.
#ifndef POLLUX_TOOLS_EXPORTER_METRICS_H_
#define POLLUX_TOOLS_EXPORTER_METRICS_H_

#include <prometheus/metric_family.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace pollux::tools {

// `sample` as TakeSample() has it. Names are those of node_exporter's InfiniBand collector after
// "pollux_" where it has a counterpart. Other counters keep the name that `pollux stat` shows, and
// are among the metrics without being listed here. Every family has a series for each process and
// worker that reports it, and no other.
std::vector<prometheus::MetricFamily> Metrics(const nlohmann::ordered_json& sample);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_EXPORTER_METRICS_H_
