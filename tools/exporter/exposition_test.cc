#include "tools/exporter/exposition.h"

#include <gtest/gtest.h>

namespace pollux::tools {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

std::vector<MetricFamily> Families() {
  std::vector<MetricFamily> families = {{"pollux_calls_total", "Calls", MetricType::Counter, {{}}},
                                        {"pollux_up", "Up", MetricType::Gauge, {{}}}};
  families[0].metric[0].label = {{"peer", "a \"b\"\\\n"}};
  families[0].metric[0].counter.value = 3;
  families[1].metric[0].gauge.value = 1;
  return families;
}

TEST(ExpositionTest, TextFormatUnlessOpenMetricsIsRequested) {
  for (const char* const accept : {"", "*/*", "text/plain;version=0.0.4;q=0.5"}) {
    const Exposition exposition = Expose(Families(), accept);
    EXPECT_EQ(exposition.content_type, "text/plain; version=0.0.4; charset=utf-8");
    EXPECT_EQ(exposition.text,
              "# HELP pollux_calls_total Calls\n# TYPE pollux_calls_total counter\n"
              "pollux_calls_total{peer=\"a \\\"b\\\"\\\\\\n\"} 3\n"
              "# HELP pollux_up Up\n# TYPE pollux_up gauge\npollux_up 1\n");
  }
}

TEST(ExpositionTest, FamilyOfOpenMetricsCountersHasNoSuffix) {
  const Exposition exposition =
      Expose(Families(), "application/openmetrics-text;version=1.0.0,text/plain;q=0.5");
  EXPECT_EQ(exposition.content_type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
  EXPECT_EQ(exposition.text,
            "# HELP pollux_calls Calls\n# TYPE pollux_calls counter\n"
            "pollux_calls_total{peer=\"a \\\"b\\\"\\\\\\n\"} 3\n"
            "# HELP pollux_up Up\n# TYPE pollux_up gauge\npollux_up 1\n# EOF\n");
}

}  // namespace
}  // namespace pollux::tools
