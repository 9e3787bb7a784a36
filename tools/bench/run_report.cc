#include "tools/bench/run_report.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tools/report.h"

namespace pollux::tools {
namespace {

// Curves of one chart of distributions.
constexpr size_t kMaxSizesShown = 6;

double Us(const LoadResult& result, double fraction) {
  return static_cast<double>(result.latency_ns->Percentile(fraction)) * 1e-3;
}

double BytesPerSecond(const BenchRow& row) { return row.rate.PerSecond() * row.bytes.value_or(0); }

std::string SizeOf(const BenchRow& row) { return row.bytes ? ShortBytes(*row.bytes) : "-"; }

std::vector<std::string> Head() {
  return {"operation",   "size",    "median \u00b5s", "99 % \u00b5s", "99.9 % \u00b5s",
          "max \u00b5s", "at once", "per second",     "GB/s"};
}

std::vector<std::string> Cells(const BenchRow& row) {
  return {row.operation,
          SizeOf(row),
          absl::StrFormat("%.2f", Us(row.latency, 0.5)),
          absl::StrFormat("%.2f", Us(row.latency, 0.99)),
          absl::StrFormat("%.2f", Us(row.latency, 0.999)),
          absl::StrFormat("%.2f", static_cast<double>(row.latency.latency_ns->max()) * 1e-3),
          absl::StrCat(row.window),
          Grouped(static_cast<uint64_t>(row.rate.PerSecond())),
          row.bytes ? absl::StrFormat("%.3f", BytesPerSecond(row) * 1e-9) : "-"};
}

nlohmann::ordered_json LoadJson(const LoadResult& result) {
  return {{"operations", result.operations},
          {"per_second", result.PerSecond()},
          {"latency_us", LatencyJson(*result.latency_ns)}};
}

// Of one operation, at most kMaxSizesShown, spread evenly.
NamedLatencies LatenciesOf(const std::vector<const BenchRow*>& rows) {
  NamedLatencies latencies;
  const size_t shown = std::min(rows.size(), kMaxSizesShown);
  for (size_t i = 0; i < shown; ++i) {
    const BenchRow& row = *rows[shown == 1 ? 0 : i * (rows.size() - 1) / (shown - 1)];
    if (row.latency.latency_ns->count() == 0) continue;
    latencies.emplace_back(row.bytes ? ShortBytes(*row.bytes) : "NULL",
                           row.latency.latency_ns.get());
  }
  return latencies;
}

std::string TitleOf(const std::string& operation) {
  if (operation == "null") return "NULL RPC";
  if (operation == "send") return "SEND, answered by a SEND";
  return operation == "write" ? "RDMA WRITE, until acknowledged" : "RDMA READ, until the data came";
}

PageSection LatencySection(
    const std::map<std::string, std::vector<const BenchRow*>>& by_operation) {
  PageSection section;
  section.title = "Latency";
  section.note = "Values are upper bounds of log-linear buckets, at most 1/64 (1.6 %) too high.";
  for (const auto& [operation, rows] : by_operation) {
    const NamedLatencies latencies = LatenciesOf(rows);
    if (latencies.empty()) continue;
    section.charts.push_back(PercentileChart(TitleOf(operation) + ": percentiles", latencies));
    section.charts.push_back(CdfChart(TitleOf(operation) + ": distribution", latencies));
  }
  return section;
}

PageSection ThroughputSection(
    const std::map<std::string, std::vector<const BenchRow*>>& by_operation) {
  PageSection section;
  section.title = "Throughput by message size";
  Chart bytes{.title = "Throughput",
              .note = "Payload, many operations under way.",
              .x = {"bytes of a message", Scale::kBytes},
              .y = {"throughput, Gb/s", Scale::kLog},
              .series = {}};
  Chart messages{.title = "Rate",
                 .note = "Operations, many under way.",
                 .x = {"bytes of a message", Scale::kBytes},
                 .y = {"million operations/s", Scale::kLog},
                 .series = {}};
  for (const auto& [operation, rows] : by_operation) {
    ChartSeries in_bytes{operation, {}}, in_messages{operation, {}};
    for (const BenchRow* row : rows) {
      if (!row->bytes) continue;
      in_bytes.points.emplace_back(*row->bytes, BytesPerSecond(*row) * 8e-9);
      in_messages.points.emplace_back(*row->bytes, row->rate.PerSecond() * 1e-6);
    }
    if (in_bytes.points.empty()) continue;
    std::sort(in_bytes.points.begin(), in_bytes.points.end());
    std::sort(in_messages.points.begin(), in_messages.points.end());
    bytes.series.push_back(std::move(in_bytes));
    messages.series.push_back(std::move(in_messages));
  }
  if (!bytes.series.empty()) section.charts = {std::move(bytes), std::move(messages)};
  return section;
}

std::string CoreToCore(const BenchRun& run) {
  return absl::StrFormat("%.0f ns before, %.0f ns after", *run.core_to_core_before_ns,
                         *run.core_to_core_after_ns);
}

PageTable BlocksTable(const BenchRun& run) {
  PageTable table{"1 MiB blocks by RPC", {"direction", "GB/s"}, {}};
  for (const auto& [name, blocks] :
       {std::pair("write", &run.write_blocks), std::pair("read", &run.read_blocks)}) {
    if (!*blocks) continue;
    table.rows.push_back({name, absl::StrFormat("%.3f", (*blocks)->BytesPerSecond() * 1e-9)});
  }
  return table;
}

}  // namespace

std::string BenchText(const BenchRun& run) {
  std::string text;
  if (!run.rows.empty()) {
    absl::StrAppend(&text, absl::StrFormat("%-10s%9s%11s%11s%11s%11s%9s%14s%9s\n", "operation",
                                           "size", "median us", "99 % us", "99.9 % us", "max us",
                                           "at once", "per second", "GB/s"));
  }
  for (const BenchRow& row : run.rows) {
    const std::vector<std::string> cells = Cells(row);
    absl::StrAppend(
        &text, absl::StrFormat("%-10s%9s%11s%11s%11s%11s%9s%14s%9s\n", cells[0], cells[1], cells[2],
                               cells[3], cells[4], cells[5], cells[6], cells[7], cells[8]));
  }
  std::vector<std::pair<std::string, std::string>> blocks;
  if (run.write_blocks) {
    blocks.emplace_back("1 MiB blocks by RPC, write", Rate(run.write_blocks->BytesPerSecond()));
  }
  if (run.read_blocks) {
    blocks.emplace_back("1 MiB blocks by RPC, read", Rate(run.read_blocks->BytesPerSecond()));
  }
  if (run.core_to_core_before_ns && run.core_to_core_after_ns) {
    blocks.emplace_back("core to core, here", CoreToCore(run));
  }
  return text + Table(blocks);
}

nlohmann::ordered_json BenchJson(const BenchPlan& plan, const BenchRun& run) {
  nlohmann::ordered_json json;
  json["asked_per_second"] = plan.per_second;
  json["window"] = plan.window;
  json["measurements"] = nlohmann::ordered_json::array();
  for (const BenchRow& row : run.rows) {
    nlohmann::ordered_json one;
    one["operation"] = row.operation;
    if (row.bytes) one["bytes"] = *row.bytes;
    one["latency"] = LoadJson(row.latency);
    one["rate"] = LoadJson(row.rate);
    one["rate"]["window"] = row.window;
    if (row.bytes) one["rate"]["bytes_per_second"] = BytesPerSecond(row);
    json["measurements"].push_back(std::move(one));
  }
  if (run.core_to_core_before_ns && run.core_to_core_after_ns) {
    json["core_to_core_ns"] = {{"before", *run.core_to_core_before_ns},
                               {"after", *run.core_to_core_after_ns}};
  }
  if (run.write_blocks) json["write_bytes_per_second"] = run.write_blocks->BytesPerSecond();
  if (run.read_blocks) json["read_bytes_per_second"] = run.read_blocks->BytesPerSecond();
  return json;
}

Page BenchPage(const BenchPlan& plan, const BenchRun& run,
               std::vector<std::pair<std::string, std::string>> conditions) {
  Page page;
  page.title = "pollux bench";
  page.lead =
      "Verbs and RPC-over-RDMA between two machines, as the client saw it. Latencies are "
      "round trips.";
  conditions.emplace_back(
      "latencies", plan.per_second > 0
                       ? absl::StrFormat("open loop, %s operations/s asked for; counted from when "
                                         "an operation was due (no coordinated omission)",
                                         ShortNumber(plan.per_second))
                       : "closed loop, one operation at a time");
  conditions.emplace_back("rates",
                          absl::StrFormat("closed loop, at most %u under way", plan.window));
  conditions.emplace_back(
      "length of a measurement",
      absl::StrFormat("at most %s operations and %g s", Grouped(plan.count), plan.seconds));
  if (run.core_to_core_before_ns && run.core_to_core_after_ns) {
    conditions.emplace_back("core to core, client", CoreToCore(run));
  }
  page.conditions = std::move(conditions);
  std::map<std::string, std::vector<const BenchRow*>> by_operation;
  for (const BenchRow& row : run.rows) by_operation[row.operation].push_back(&row);
  page.sections.push_back(LatencySection(by_operation));
  page.sections.push_back(ThroughputSection(by_operation));
  PageTable all{"Latency, then rate", Head(), {}};
  for (const BenchRow& row : run.rows) all.rows.push_back(Cells(row));
  page.sections.push_back({.title = "All figures", .tables = {std::move(all), BlocksTable(run)}});
  return page;
}

}  // namespace pollux::tools
