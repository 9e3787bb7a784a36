// A ratio of two figures against what it should reach.
#ifndef POLLUX_TOOLS_BENCH_VERDICT_H_
#define POLLUX_TOOLS_BENCH_VERDICT_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/core_to_core.h"
#include "tools/bench/series.h"

namespace pollux::tools {

// Small messages beside bulk are quickest when the bulk starves. Of its rate alone it keeps at
// least so much, or what they reach counts for nothing: a third to a half of what it has where
// queue pairs take turns, a thousand of them with a small message and one with 34 KiB of bulk
// (engine::Worker). Of fewer queue pairs it gets more.
inline constexpr double kMinBulkShare = 0.005;
inline constexpr char kBulkStarved[] = "the bulk starved";

struct Verdict {
  std::string name;
  Series ratios;                 // one of each pass
  std::optional<double> target;  // none: told for comparison, and not judged
  bool at_most = false;          // target and aim; otherwise they are an at least
  std::optional<double> aim;     // what would be better still
  std::string unmet_by = "";     // whatever the ratios: at whose cost they were had; mostly nothing

  double value() const { return ratios.Median(); }
  bool met() const { return target && unmet_by.empty() && Reaches(*target); }
  bool aim_met() const { return aim && unmet_by.empty() && Reaches(*aim); }

 private:
  bool Reaches(double limit) const { return at_most ? value() <= limit : value() >= limit; }
};

// "at least 0.50", "none".
std::string TargetWords(const Verdict& verdict);
// "met", "met, and the aim of 0.65", "not met", "not met: the bulk starved", "no target".
std::string VerdictWords(const Verdict& verdict);
// Why verdicts of so many passes, with cores so far apart, do not count; nothing where they do. Of
// passes in which the cores flipped they never do: near ones and far ones have their own.
std::string WhyUncounted(size_t passes, CoreDistance cores);

// A heading, and a line of each; nothing where there are none.
std::string VerdictsText(const std::vector<Verdict>& verdicts);
// By name.
nlohmann::ordered_json VerdictsJson(const std::vector<Verdict>& verdicts);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_BENCH_VERDICT_H_
