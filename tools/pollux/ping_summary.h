// The summary of a series of calls to one server, in the format of ping(8).
#ifndef POLLUX_TOOLS_POLLUX_PING_SUMMARY_H_
#define POLLUX_TOOLS_POLLUX_PING_SUMMARY_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "tools/common/histogram.h"

namespace pollux::tools {

class PingSummary {
 public:
  // Without a threshold no call is too slow.
  explicit PingSummary(std::optional<double> threshold_ns) : threshold_ns_(threshold_ns) {}

  void Sent() { ++sent_; }
  // Records the answer to the last call after `ns`, and returns its line.
  std::string Answered(uint64_t ns, const std::string& server);
  // Records that the last call was ended `ns` after it was sent, without an answer.
  void Unanswered(uint64_t ns);

  uint64_t sent() const { return sent_; }
  uint64_t answers() const { return latency_ns_.count(); }
  const Histogram& latency_ns() const { return latency_ns_; }
  // Three lines; two if there are no answers.
  std::string Text(const std::string& server, uint64_t elapsed_ns) const;
  nlohmann::ordered_json Json() const;
  // FailedPrecondition, with the threshold and the findings, if a call took longer than the
  // threshold; DeadlineExceeded if no call was answered, or fewer than `wanted` (0: no such
  // minimum).
  absl::Status Verdict(uint64_t wanted) const;

 private:
  double MeanNs() const { return answers() == 0 ? 0 : sum_ns_ / static_cast<double>(answers()); }
  // "mdev" of ping(8): the standard deviation.
  double DeviationNs() const;
  void Compare(uint64_t ns) {
    if (threshold_ns_ && static_cast<double>(ns) > *threshold_ns_) ++slow_;
  }

  const std::optional<double> threshold_ns_;
  uint64_t sent_ = 0;
  uint64_t slow_ = 0;
  uint64_t unanswered_ns_ = 0;  // 0: each call was answered
  uint64_t min_ns_ = UINT64_MAX;
  double sum_ns_ = 0;
  double sum_of_squares_ = 0;
  Histogram latency_ns_;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_POLLUX_PING_SUMMARY_H_
