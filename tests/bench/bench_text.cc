#include "tests/bench/bench_text.h"

#include <cstdio>
#include <string>

#include "tests/bench/figures.h"
#include "tests/bench/targets.h"
#include "tools/bench/verdict.h"
#include "tools/common/report.h"

namespace pollux::bench {

void PrintSection(const Results::Section& of) {
  const Figures& figures = *of.figures;
  std::printf("\n%s (cores %s)\n%-44s%12s%12s%12s\n", of.name.c_str(),
              tools::DistanceName(of.cores), "", "median", "low", "high");
  for (const auto& [name, series] : figures.series) {
    std::printf("%-44s%12.3f%12.3f%12.3f  %s\n", name.c_str(), series.Median(), series.Low(),
                series.High(), series.unit.c_str());
  }
  if (!figures.ratios.empty()) {
    std::printf("\n%s", tools::VerdictsText(Verdicts(figures)).c_str());
    if (const std::string why = tools::WhyUncounted(of.passes, of.cores); !why.empty()) {
      std::printf("%s\n", why.c_str());
    }
  }
  for (const auto& [what, why] : figures.missing) {
    std::printf("%s: not measured: %s\n", what.c_str(), why.c_str());
  }
}

nlohmann::ordered_json SectionJson(const Results::Section& of) {
  const Figures& figures = *of.figures;
  nlohmann::ordered_json json;
  json["cores"] = tools::DistanceName(of.cores);
  json["passes"] = of.passes;
  for (const auto& [name, series] : figures.series) {
    json["figures"][name] = {{"unit", series.unit},
                             {"median", series.Median()},
                             {"low", series.Low()},
                             {"high", series.High()}};
  }
  for (const auto& [name, latency_ns] : figures.latencies_ns) {
    json["latencies_us"][name] = tools::LatencyJson(*latency_ns);
    json["latencies_us"][name]["count"] = latency_ns->count();
  }
  json["verdicts_count"] = tools::WhyUncounted(of.passes, of.cores).empty();
  if (!figures.ratios.empty()) json["ratios"] = tools::VerdictsJson(Verdicts(figures));
  for (const auto& [what, why] : figures.missing) json["missing"][what] = why;
  return json;
}

}  // namespace pollux::bench
