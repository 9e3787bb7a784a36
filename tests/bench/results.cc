#include "tests/bench/results.h"

#include "absl/strings/str_cat.h"

namespace pollux::bench {
tools::CoreDistance CoresOf(const Figures& pass) {
  const auto found = pass.series.find(kCoreToCore);
  return tools::DistanceOf(found == pass.series.end() ? Series() : found->second);
}

void Results::Add(Wire wire, const Figures& pass) {
  Passes& passes = wires_[wire][CoresOf(pass)];
  ++passes.count;
  passes.figures.Add(pass);
}

std::vector<Results::Section> Results::Sections() const {
  std::vector<Section> sections;
  for (const auto& [wire, by_cores] : wires_) {
    for (const auto& [cores, passes] : by_cores) {
      std::string name = WireName(wire);
      if (by_cores.size() > 1) absl::StrAppend(&name, ", cores ", tools::DistanceName(cores));
      sections.push_back({std::move(name), wire, cores, passes.count, &passes.figures});
    }
  }
  return sections;
}

}  // namespace pollux::bench
