// The statistics of running processes as Prometheus metrics.
#ifndef POLLUX_TOOLS_EXPORTER_METRICS_H_
#define POLLUX_TOOLS_EXPORTER_METRICS_H_

#include <prometheus/metric_family.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace pollux::tools {

// `sample` is a result of TakeSample(). Names are those of node_exporter's InfiniBand collector,
// after "pollux_", if it has a counterpart. Other counters keep the name that `pollux stat` shows,
// and become metrics without being listed in the code. Every family has one series for each process
// and worker that reports it. Without `connections`, connections in the sample are left out.
std::vector<prometheus::MetricFamily> Metrics(const nlohmann::ordered_json& sample,
                                              bool connections = true);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_EXPORTER_METRICS_H_
