#include "tests/bench/history_page.h"

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace pollux::bench {
namespace {

using Json = nlohmann::ordered_json;
using tools::Chart;
using tools::ChartSeries;
using tools::Scale;

// Charts show a limited number of series: the others are in the tables.
class SeriesByName {
 public:
  void Add(const std::string& name, size_t run, double value) {
    const auto [place, is_new] = places_.try_emplace(name, series_.size());
    if (is_new) series_.push_back({name, {}});
    series_[place->second].points.emplace_back(static_cast<double>(run), value);
  }
  // `title` gets a number if there are several charts.
  void Draw(const Chart& like, std::vector<Chart>& charts) const {
    for (size_t i = 0; i < series_.size(); i += Chart::kMaxSeries) {
      Chart chart = like;
      if (series_.size() > Chart::kMaxSeries) {
        absl::StrAppend(&chart.title, " (", i / Chart::kMaxSeries + 1, ")");
      }
      for (size_t j = i; j < series_.size() && j < i + Chart::kMaxSeries; ++j) {
        chart.series.push_back(series_[j]);
      }
      charts.push_back(std::move(chart));
    }
  }

 private:
  std::map<std::string, size_t> places_;
  std::vector<ChartSeries> series_;  // in the order of their first runs
};

// How much better than its target a ratio is: 1 just meets it.
double ByTarget(const Json& ratio) {
  const double median = ratio.at("median");
  if (ratio.contains("at_least")) return median / ratio.at("at_least").get<double>();
  return median > 0 ? ratio.at("at_most").get<double>() / median : 0;
}

// Whether it has everything that History::Add() reads: the library ends the program otherwise.
bool IsRun(const Json& run) {
  using Is = bool (Json::*)() const noexcept;
  const auto has = [](const Json& of, const char* name, Is is) {
    return of.is_object() && of.contains(name) && (of.at(name).*is)();
  };
  const auto has_text = [&has](const Json& of, const char* name) {
    return has(of, name, &Json::is_string);
  };
  if (!has_text(run, "date") || !has_text(run, "commit") ||
      !has(run, "machine", &Json::is_object) || !has(run, "instructions", &Json::is_object) ||
      !has(run, "wires", &Json::is_object)) {
    return false;
  }
  const Json& machine = run.at("machine");
  if (!has_text(machine, "processor") || !has_text(machine, "kernel") ||
      !has(machine, "cpus", &Json::is_number)) {
    return false;
  }
  for (const auto& [name, count] : run.at("instructions").items()) {
    if (!count.is_number()) return false;
  }
  for (const auto& [wire, of] : run.at("wires").items()) {
    if (!has_text(of, "cores") || !of.contains("core_to_core_ns") ||
        !has(of, "ratios", &Json::is_object)) {
      return false;
    }
    for (const auto& [name, ratio] : of.at("ratios").items()) {
      if (!has(ratio, "median", &Json::is_number)) return false;
      for (const char* target : {"at_least", "at_most"}) {
        if (ratio.contains(target) && !ratio.at(target).is_number()) return false;
      }
    }
  }
  return true;
}

struct History {
  tools::PageTable runs{
      "Runs", {"run", "date", "commit", "processor", "CPUs", "kernel", "core to core"}, {}};
  tools::PageTable instructions{"Instructions per message", {"path"}, {}};
  std::map<std::string, std::vector<std::string>> instruction_rows;
  std::map<std::string, double> first;  // instructions of the first run that measured the path
  SeriesByName relative;
  std::map<std::string, SeriesByName> ratios;  // by wire

  void Add(const Json& run, size_t number) {
    const Json& machine = run.at("machine");
    std::string core_to_core;
    for (const auto& [wire, of] : run.at("wires").items()) {
      if (of.at("core_to_core_ns").is_number()) {
        absl::StrAppendFormat(&core_to_core, "%s%.0f ns (%s)", core_to_core.empty() ? "" : ", ",
                              of.at("core_to_core_ns").get<double>(), wire);
      }
      for (const auto& [name, ratio] : of.at("ratios").items()) {
        if (!ratio.contains("at_least") && !ratio.contains("at_most")) continue;
        ratios[absl::StrCat(wire, ", cores ", of.at("cores").get<std::string>())].Add(
            name, number, ByTarget(ratio));
      }
    }
    runs.rows.push_back({absl::StrCat(number), run.at("date"), run.at("commit"),
                         machine.at("processor"), absl::StrCat(machine.at("cpus").get<int>()),
                         machine.at("kernel"), core_to_core});
    for (const auto& [name, count] : run.at("instructions").items()) {
      const double value = count;
      const double base = first.try_emplace(name, value).first->second;
      if (base > 0) relative.Add(name, number, value / base);
      std::vector<std::string>& row = instruction_rows[name];
      row.resize(number - 1);
      row.push_back(absl::StrFormat("%.0f", value));
    }
  }
};

}  // namespace

absl::StatusOr<tools::Page> HistoryPage(absl::string_view lines) {
  History history;
  size_t number = 0, at = 0;
  for (const absl::string_view line : absl::StrSplit(lines, '\n')) {
    ++at;
    if (line.empty()) continue;
    const Json run = Json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
    if (!IsRun(run)) {
      return absl::InvalidArgumentError(absl::StrCat("line ", at, " is no run of the benchmark"));
    }
    history.Add(run, ++number);
  }
  if (number == 0) return absl::InvalidArgumentError("no run is recorded");
  const auto chart = [](const char* title, const char* note, const char* y) {
    return Chart{.title = title,
                 .note = note,
                 .x = {"run", Scale::kCount},
                 .y = {y, Scale::kLinear},
                 .series = {}};
  };
  tools::Page page;
  page.title = "Pollux benchmark history";
  page.lead =
      "One run a point, oldest first; the table says on which machine. Times are not comparable "
      "between machines, so there are only ratios within a run and counted instructions.";
  page.conditions = {{"runs", absl::StrCat(number)}};
  tools::PageSection runs{.title = "Instructions"};
  history.relative.Draw(
      chart("Instructions per message, by path", "Relative to the first run: lower is better.",
            "instructions / first"),
      runs.charts);
  for (auto& [name, row] : history.instruction_rows) {
    row.resize(number);
    row.insert(row.begin(), name);
    history.instructions.rows.push_back(row);
  }
  for (size_t i = 1; i <= number; ++i) history.instructions.head.push_back(absl::StrCat(i));
  runs.tables = {history.runs, history.instructions};
  page.sections.push_back(std::move(runs));
  for (const auto& [wire, ratios] : history.ratios) {
    tools::PageSection section{.title = absl::StrCat("Ratios, ", wire)};
    ratios.Draw(chart("Ratios by their targets",
                      "1 meets the target, higher is better, whether the target is a least or a "
                      "greatest value.",
                      "better than the target by"),
                section.charts);
    page.sections.push_back(std::move(section));
  }
  return page;
}

}  // namespace pollux::bench
