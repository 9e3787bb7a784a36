#include "tests/bench/results.h"

#include "absl/strings/str_cat.h"

namespace pollux::bench {
namespace {

// Between the two costs that virtual machines were seen to flip between, 110 and 520 ns.
constexpr double kFarNs = 250;

}  // namespace

const char* CoresName(Cores cores) {
  switch (cores) {
    case Cores::kNear:
      return "near";
    case Cores::kFar:
      return "far";
    case Cores::kFlipped:
      break;
  }
  return "now near, now far";
}

Cores CoresOf(const Figures& pass) {
  const auto found = pass.series.find(kCoreToCore);
  if (found == pass.series.end() || found->second.High() < kFarNs) return Cores::kNear;
  return found->second.Low() < kFarNs ? Cores::kFlipped : Cores::kFar;
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
      if (by_cores.size() > 1) absl::StrAppend(&name, ", cores ", CoresName(cores));
      sections.push_back({std::move(name), wire, cores, passes.count, &passes.figures});
    }
  }
  return sections;
}

}  // namespace pollux::bench
