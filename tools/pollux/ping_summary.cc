#include "tools/pollux/ping_summary.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/common/duration.h"
#include "tools/common/report.h"

namespace pollux::tools {
namespace {

double Ms(double ns) { return ns * 1e-6; }

}  // namespace

std::string PingSummary::Answered(uint64_t ns, const std::string& server) {
  const auto value = static_cast<double>(ns);
  latency_ns_.Record(ns);
  min_ns_ = std::min(min_ns_, ns);
  sum_ns_ += value;
  sum_of_squares_ += value * value;
  Compare(ns);
  return absl::StrFormat("answer from %s: seq=%u time=%.4f ms\n", server, sent_, Ms(value));
}

void PingSummary::Unanswered(uint64_t ns) {
  unanswered_ns_ = ns;
  Compare(ns);
}

double PingSummary::DeviationNs() const {
  if (answers() == 0) return 0;
  const double mean = MeanNs();
  return std::sqrt(std::max(0.0, sum_of_squares_ / static_cast<double>(answers()) - mean * mean));
}

std::string PingSummary::Text(const std::string& server, uint64_t elapsed_ns) const {
  std::string text = absl::StrFormat(
      "--- %s pollux ping statistics ---\n%u calls sent, %u answered, %g%% lost, time %.0f ms\n",
      server, sent_, answers(),
      sent_ == 0 ? 0 : 100 * static_cast<double>(sent_ - answers()) / static_cast<double>(sent_),
      Ms(static_cast<double>(elapsed_ns)));
  if (answers() == 0) return text;
  absl::StrAppendFormat(&text, "rtt min/avg/max/mdev = %.4f/%.4f/%.4f/%.4f ms\n",
                        Ms(static_cast<double>(min_ns_)), Ms(MeanNs()),
                        Ms(static_cast<double>(latency_ns_.max())), Ms(DeviationNs()));
  return text;
}

nlohmann::ordered_json PingSummary::Json() const {
  nlohmann::ordered_json latency = LatencyJson(latency_ns_);
  latency["min"] = answers() == 0 ? 0 : static_cast<double>(min_ns_) * 1e-3;
  latency["avg"] = MeanNs() * 1e-3;
  latency["mdev"] = DeviationNs() * 1e-3;
  return {{"calls", answers()}, {"sent", sent_}, {"too_slow", slow_}, {"latency_us", latency}};
}

absl::Status PingSummary::Verdict(uint64_t wanted) const {
  if (answers() == 0) return absl::DeadlineExceededError("no call was answered");
  if (answers() < wanted) {
    return absl::DeadlineExceededError(
        absl::StrFormat("%u of %u calls were answered in time", answers(), wanted));
  }
  if (slow_ > 0) {
    const bool unanswered = unanswered_ns_ > latency_ns_.max();
    return absl::FailedPreconditionError(absl::StrFormat(
        "%u of %u calls took longer than %s, the longest %s%s", slow_, sent_,
        FormatDurationNs(*threshold_ns_),
        FormatDurationNs(static_cast<double>(unanswered ? unanswered_ns_ : latency_ns_.max())),
        unanswered ? " without an answer" : ""));
  }
  return absl::OkStatus();
}

}  // namespace pollux::tools
