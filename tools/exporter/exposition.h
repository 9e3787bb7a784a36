// Metrics as text in the requested format.
#ifndef POLLUX_TOOLS_EXPORTER_EXPOSITION_H_
#define POLLUX_TOOLS_EXPORTER_EXPOSITION_H_

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

namespace pollux::tools {

struct Exposition {
  std::string content_type;
  std::string text;
};

// OpenMetrics 1.0 if the HTTP header Accept names it, otherwise Prometheus's text format 0.0.4.
Exposition Expose(const std::vector<prometheus::MetricFamily>& families, const std::string& accept);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_EXPORTER_EXPOSITION_H_
