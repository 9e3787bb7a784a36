// A ratio of two figures, compared with its target.
#ifndef POLLUX_TOOLS_BENCH_VERDICT_H_
#define POLLUX_TOOLS_BENCH_VERDICT_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/core_to_core.h"
#include "tools/bench/series.h"

namespace pollux::tools {

// Small messages beside bulk are fastest if the bulk starves. The bulk must keep at least this
// share of the rate that it reaches alone, or the figures of the small messages do not count. It is
// a third to a half of the share that the bulk gets if each queue pair sends in turn: a thousand
// queue pairs one small message each, and one 34 KiB of bulk (engine::Worker). With fewer queue
// pairs the bulk gets more.
inline constexpr double kMinBulkShare = 0.005;
inline constexpr char kBulkStarved[] = "the bulk starved";

struct Verdict {
  std::string name;
  Series ratios;                 // one per pass
  std::optional<double> target;  // nothing: only shown for comparison
  bool at_most = false;          // target and aim are maxima; otherwise they are minima
  std::optional<double> aim;     // a better value, beyond the target
  std::string unmet_by = "";     // if not empty: why the target is not met, whatever the ratios

  double value() const { return ratios.Median(); }
  bool met() const { return target && unmet_by.empty() && Reaches(*target); }
  bool aim_met() const { return aim && unmet_by.empty() && Reaches(*aim); }

 private:
  bool Reaches(double limit) const { return at_most ? value() <= limit : value() >= limit; }
};

// "at least 0.50", "none".
std::string TargetWords(const Verdict& verdict);
// "met", "target met, aim of 0.65 met", "not met", "not met: the bulk starved", "no target".
std::string VerdictWords(const Verdict& verdict);
// Returns why verdicts from this number of passes with this core distance do not count; empty if
// they do. Passes in which the distance changed never count; passes with near cores and passes with
// far cores have verdicts of their own.
std::string WhyUncounted(size_t passes, CoreDistance cores);

// A heading and one line per verdict; empty if there are none.
std::string VerdictsText(const std::vector<Verdict>& verdicts);
// The verdicts by name.
nlohmann::ordered_json VerdictsJson(const std::vector<Verdict>& verdicts);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_BENCH_VERDICT_H_
