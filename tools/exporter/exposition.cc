#include "tools/exporter/exposition.h"

#include <prometheus/text_serializer.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace pollux::tools {
namespace {

using prometheus::MetricFamily;

// prometheus-cpp writes the text format alone. OpenMetrics differs in that the family of a counter
// is named without the suffix of its samples, and in the last line.
std::string OpenMetrics(const std::vector<MetricFamily>& families) {
  const prometheus::TextSerializer serializer;
  std::string all;
  for (const MetricFamily& family : families) {
    std::string text = serializer.Serialize({family});
    absl::string_view name = family.name;
    if (family.type == prometheus::MetricType::Counter && absl::ConsumeSuffix(&name, "_total")) {
      for (const char* const line : {"# HELP ", "# TYPE "}) {
        text = absl::StrReplaceAll(
            text, {{absl::StrCat(line, family.name, " "), absl::StrCat(line, name, " ")}});
      }
    }
    absl::StrAppend(&all, text);
  }
  return absl::StrCat(all, "# EOF\n");
}

}  // namespace

Exposition Expose(const std::vector<MetricFamily>& families, const std::string& accept) {
  if (absl::StrContains(accept, "application/openmetrics-text")) {
    return {"application/openmetrics-text; version=1.0.0; charset=utf-8", OpenMetrics(families)};
  }
  return {"text/plain; version=0.0.4; charset=utf-8",
          prometheus::TextSerializer().Serialize(families)};
}

}  // namespace pollux::tools
