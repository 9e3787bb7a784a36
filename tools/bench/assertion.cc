#include "tools/bench/assertion.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "tools/common/duration.h"
#include "tools/common/report.h"

namespace pollux::tools {
namespace {

constexpr const char* kOperations[] = {"null", "send", "write", "read"};
constexpr const char* kTimes[] = {"p50", "p99", "p999", "max"};
constexpr char kRate[] = "rate";
constexpr char kBandwidth[] = "bandwidth";
using Units = std::vector<std::pair<std::string, double>>;

template <size_t N>
bool IsOneOf(const std::string& name, const char* const (&names)[N]) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool IsTime(const std::string& metric) { return IsOneOf(metric, kTimes); }

const Units& RateUnits() {
  static const auto* const units = new Units{{"", 1}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}};
  return *units;
}

const Units& BandwidthUnits() {
  static const auto* const units =
      new Units{{"B/s", 1}, {"kB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}};
  return *units;
}

absl::StatusOr<double> ParseValue(const std::string& metric, const std::string& text) {
  if (IsTime(metric)) return ParseDurationNs(text);
  const size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  double number = 0;
  if (absl::SimpleAtod(text.substr(0, end), &number)) {
    for (const auto& [name, size] : metric == kRate ? RateUnits() : BandwidthUnits()) {
      if (text.substr(end) == name) return number * size;
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", text,
      metric == kRate ? "' is not a number of operations per second, such as 250000, 250k or 1.5M"
                      : "' is not a number of bytes per second, such as 500MB/s or 1.2GB/s"));
}

std::string FormatValue(const std::string& metric, double value) {
  if (IsTime(metric)) return FormatDurationNs(value);
  if (metric == kRate) return absl::StrFormat("%.0f/s", value);
  return absl::StrFormat("%.3fGB/s", value * 1e-9);
}

bool Meets(double found, const std::string& relation, double value) {
  if (relation == "<") return found < value;
  if (relation == "<=") return found <= value;
  return relation == ">" ? found > value : found >= value;
}

// Nothing if no operation came to its end.
std::optional<double> Figure(const BenchRow& row, const std::string& metric) {
  const LoadSeries& load = IsTime(metric) ? row.latency : row.rate;
  if (load.operations == 0) return std::nullopt;
  if (metric == "p50") return load.median_us.Median() * 1e3;
  if (metric == "p99") return load.p99_us.Median() * 1e3;
  if (metric == "p999") return static_cast<double>(load.latency_ns->Percentile(0.999));
  if (metric == "max") return static_cast<double>(load.latency_ns->max());
  if (metric == kRate) return load.per_second.Median();
  return load.per_second.Median() * row.bytes.value_or(0);
}

// XML 1.0 cannot represent most control characters.
std::string Escaped(const std::string& text) {
  std::string valid = ReplaceInvalidUtf8(text);
  std::replace_if(
      valid.begin(), valid.end(), [](unsigned char c) { return absl::ascii_iscntrl(c); }, ' ');
  return absl::StrReplaceAll(valid,
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

}  // namespace

absl::StatusOr<Assertion> Assertion::Parse(const std::string& text) {
  const auto wrong = [&text](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "': ", why));
  };
  const size_t at = text.find_first_of("<>");
  if (at == std::string::npos) {
    return wrong(
        "no relation; write for example 'p99<20us' (quote it for the shell), with <, <=, > or >=");
  }
  Assertion one;
  one.text = text;
  const bool or_equal = at + 1 < text.size() && text[at + 1] == '=';
  one.relation = text.substr(at, or_equal ? 2 : 1);
  std::vector<std::string> parts = absl::StrSplit(text.substr(0, at), '/');
  one.metric = parts.back();
  parts.pop_back();
  if (!IsTime(one.metric) && one.metric != kRate && one.metric != kBandwidth) {
    return wrong(absl::StrCat("unknown metric '", one.metric,
                              "'; the metrics are p50, p99, p999, max, rate, bandwidth"));
  }
  if (parts.size() > 2) return wrong("write [OPERATION/[SIZE/]]METRIC before the relation");
  if (!parts.empty()) {
    one.operation = parts[0];
    if (!IsOneOf(one.operation, kOperations)) {
      return wrong(absl::StrCat("unknown operation '", one.operation,
                                "'; the operations are null, send, write, read"));
    }
  }
  if (one.operation == "null" && (parts.size() == 2 || one.metric == kBandwidth)) {
    return wrong("a NULL call has no size");
  }
  if (parts.size() == 2) {
    uint32_t bytes = 0;
    if (!absl::SimpleAtoi(parts[1], &bytes)) {
      return wrong(absl::StrCat("'", parts[1], "' is not a size in bytes"));
    }
    one.bytes = bytes;
  }
  const auto value = ParseValue(one.metric, text.substr(at + one.relation.size()));
  if (!value.ok()) return wrong(std::string(value.status().message()));
  one.value = *value;
  return one;
}

absl::Status Assertion::CheckPlan(const BenchPlan& plan) const {
  const auto measures = [&plan](const std::string& what) {
    return std::find(plan.what.begin(), plan.what.end(), what) != plan.what.end();
  };
  const bool verbs = measures("send") || measures("write") || measures("read");
  const bool any = metric == kBandwidth ? verbs : verbs || measures("null");
  if (operation.empty() ? !any : !measures(operation)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--assert ", text, ": --measure does not include ",
                     !operation.empty()     ? operation
                     : metric == kBandwidth ? "send, write or read"
                                            : "null, send, write or read"));
  }
  if (bytes && std::find(plan.sizes.begin(), plan.sizes.end(), *bytes) == plan.sizes.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--assert ", text, ": ", *bytes, " is not one of --sizes"));
  }
  return absl::OkStatus();
}

bool AssertionResult::met() const {
  return !figures.empty() && std::all_of(figures.begin(), figures.end(),
                                         [](const AssertedFigure& one) { return one.met; });
}

std::string AssertionResult::Words() const {
  if (figures.empty()) return absl::StrCat("asked ", asked, ", found no measurement");
  std::vector<std::string> found;
  for (const AssertedFigure& one : figures) {
    if (!one.met) found.push_back(absl::StrCat(one.found, " (", one.name, ")"));
  }
  return absl::StrCat("asked ", asked, ", found ", absl::StrJoin(found, ", "));
}

std::vector<AssertionResult> Judge(const std::vector<Assertion>& assertions,
                                   const BenchResult& result) {
  std::vector<AssertionResult> results;
  for (const Assertion& one : assertions) {
    AssertionResult& judged = results.emplace_back();
    judged.asked = one.text;
    for (const BenchRun& run : result.runs) {
      for (const BenchRow& row : run.rows) {
        if (!one.operation.empty() && row.operation != one.operation) continue;
        if (one.bytes && row.bytes != one.bytes) continue;
        if (one.metric == kBandwidth && !row.bytes) continue;  // a NULL call has none
        const std::optional<double> found = Figure(row, one.metric);
        std::string name = row.operation;
        if (row.bytes) absl::StrAppend(&name, ", ", *row.bytes, " B");
        if (result.runs.size() > 1) absl::StrAppend(&name, ", cores ", DistanceName(run.distance));
        judged.figures.push_back(
            {.name = std::move(name),
             .found = found ? FormatValue(one.metric, *found) : "no completed operation",
             .met = found && Meets(*found, one.relation, one.value)});
      }
    }
  }
  return results;
}

nlohmann::ordered_json AssertionsJson(const std::vector<AssertionResult>& results) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const AssertionResult& one : results) {
    nlohmann::ordered_json figures = nlohmann::ordered_json::array();
    for (const AssertedFigure& figure : one.figures) {
      figures.push_back({{"of", figure.name}, {"found", figure.found}, {"met", figure.met}});
    }
    list.push_back({{"asked", one.asked}, {"met", one.met()}, {"figures", std::move(figures)}});
  }
  return list;
}

std::string AssertionsJunit(const std::vector<AssertionResult>& results, const absl::Status& status,
                            double seconds) {
  const auto failures = std::count_if(results.begin(), results.end(),
                                      [](const AssertionResult& one) { return !one.met(); });
  const size_t errors = status.ok() ? 0 : results.size();
  std::string text = absl::StrFormat(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
      "  <testsuite name=\"pollux bench\" tests=\"%u\" failures=\"%u\" errors=\"%u\" "
      "time=\"%.3f\">\n",
      results.size(), status.ok() ? failures : 0, errors, seconds);
  for (const AssertionResult& one : results) {
    absl::StrAppend(&text, "    <testcase classname=\"pollux.bench\" name=\"", Escaped(one.asked),
                    "\">");
    if (!status.ok()) {
      absl::StrAppend(&text, "<error message=\"", Escaped(std::string(status.message())), "\"/>");
    } else if (!one.met()) {
      absl::StrAppend(&text, "<failure message=\"", Escaped(one.Words()), "\"/>");
    }
    absl::StrAppend(&text, "</testcase>\n");
  }
  return absl::StrCat(text, "  </testsuite>\n</testsuites>\n");
}

}  // namespace pollux::tools
