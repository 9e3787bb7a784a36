#include "tools/bench/verdict.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace pollux::tools {

std::string TargetWords(const Verdict& verdict) {
  if (!verdict.target) return "none";
  return absl::StrFormat("at %s %.2f", verdict.at_most ? "most" : "least", *verdict.target);
}

std::string VerdictWords(const Verdict& verdict) {
  if (!verdict.target) return "no target";
  if (!verdict.unmet_by.empty()) return absl::StrCat("not met: ", verdict.unmet_by);
  if (!verdict.met()) return "not met";
  if (!verdict.aim) return "met";
  return absl::StrFormat("target met, aim of %.2f %s", *verdict.aim,
                         verdict.aim_met() ? "met" : "not met");
}

std::string WhyUncounted(size_t passes, CoreDistance cores) {
  std::string why;
  if (passes < kMinPasses) {
    why = absl::StrCat(passes, passes == 1 ? " pass" : " passes", ", fewer than ", kMinPasses);
  }
  if (cores == CoreDistance::kUnmeasured) {
    absl::StrAppend(&why, why.empty() ? "" : "; ", "core to core ", kNoCoreToCore);
  }
  if (cores == CoreDistance::kFlipped) {
    absl::StrAppend(
        &why, why.empty() ? "" : "; ", "the cores were ", DistanceName(cores),
        ", so the two figures of a ratio may come from passes with different core distances");
  }
  if (!why.empty()) why += ": these verdicts do not count.";
  return why;
}

std::string VerdictsText(const std::vector<Verdict>& verdicts) {
  if (verdicts.empty()) return "";
  std::string text =
      absl::StrFormat("%-52s%9s%9s%9s%16s\n", "ratio", "median", "low", "high", "target");
  for (const Verdict& verdict : verdicts) {
    absl::StrAppendFormat(&text, "%-52s%9.2f%9.2f%9.2f%16s  %s\n", verdict.name, verdict.value(),
                          verdict.ratios.Low(), verdict.ratios.High(), TargetWords(verdict),
                          VerdictWords(verdict));
  }
  return text;
}

nlohmann::ordered_json VerdictsJson(const std::vector<Verdict>& verdicts) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const Verdict& verdict : verdicts) {
    nlohmann::ordered_json& one = json[verdict.name];
    one = {{"median", verdict.value()},
           {"low", verdict.ratios.Low()},
           {"high", verdict.ratios.High()}};
    if (!verdict.target) continue;
    one[verdict.at_most ? "at_most" : "at_least"] = *verdict.target;
    one["met"] = verdict.met();
    if (!verdict.unmet_by.empty()) one["unmet_by"] = verdict.unmet_by;
    if (!verdict.aim) continue;
    one["aim"] = *verdict.aim;
    one["aim_met"] = verdict.aim_met();
  }
  return json;
}

}  // namespace pollux::tools
