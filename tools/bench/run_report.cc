#include "tools/bench/run_report.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/common/report.h"

namespace pollux::tools {
namespace {

// Curves of one chart of distributions.
constexpr size_t kMaxSizesShown = 6;
// Of what an open loop was asked for, to have been reached: the last operation's latency costs
// some.
constexpr double kRateReached = 0.95;
constexpr double kMinOfRate = 100;

double Us(const LoadSeries& load, double fraction) {
  return static_cast<double>(load.latency_ns->Percentile(fraction)) * 1e-3;
}

double BytesPerSecond(const BenchRow& row) {
  return row.rate.per_second.Median() * row.bytes.value_or(0);
}

std::string SizeOf(const BenchRow& row) { return row.bytes ? ShortBytes(*row.bytes) : "-"; }

bool RateReached(const BenchPlan& plan, const LoadSeries& latency) {
  return latency.per_second.Median() >= kRateReached * plan.per_second;
}

// The rate counts the time from the first operation's beginning to the last one's end: of few, one
// that ends late is too much of it.
bool RateIsKnown(const BenchPlan& plan) {
  const auto count = static_cast<double>(plan.count);
  return kMinOfRate <= (plan.seconds > 0 ? std::min(count, plan.per_second * plan.seconds) : count);
}

// Nothing of a closed loop.
std::string OpenLoop(const BenchPlan& plan, const BenchRow& row) {
  if (plan.per_second == 0) return "";
  if (!RateIsKnown(plan)) {
    return absl::StrCat("open loop: ", ShortNumber(plan.per_second), "/s requested");
  }
  return absl::StrFormat("open loop: %s/s requested, %s/s reached%s", ShortNumber(plan.per_second),
                         Grouped(static_cast<uint64_t>(row.latency.per_second.Median())),
                         RateReached(plan, row.latency)
                             ? ""
                             : ": the rate was not reached, and latencies grow with the queue");
}

std::vector<std::string> Head() {
  return {
      "operation",   "size",    "median \u00b5s", "low to high", "99 % \u00b5s", "99.9 % \u00b5s",
      "max \u00b5s", "at once", "per second",     "low to high", "GB/s"};
}

std::vector<std::string> Cells(const BenchRow& row) {
  const Series& rate = row.rate.per_second;
  return {
      row.operation,
      SizeOf(row),
      absl::StrFormat("%.2f", row.latency.median_us.Median()),
      absl::StrFormat("%.2f to %.2f", row.latency.median_us.Low(), row.latency.median_us.High()),
      absl::StrFormat("%.2f", row.latency.p99_us.Median()),
      absl::StrFormat("%.2f", Us(row.latency, 0.999)),
      absl::StrFormat("%.2f", static_cast<double>(row.latency.latency_ns->max()) * 1e-3),
      absl::StrCat(row.window),
      Grouped(static_cast<uint64_t>(rate.Median())),
      absl::StrCat(Grouped(static_cast<uint64_t>(rate.Low())), " to ",
                   Grouped(static_cast<uint64_t>(rate.High()))),
      row.bytes ? absl::StrFormat("%.3f", BytesPerSecond(row) * 1e-9) : "-"};
}

nlohmann::ordered_json SeriesJson(const Series& series) {
  return {{"median", series.Median()}, {"low", series.Low()}, {"high", series.High()}};
}

nlohmann::ordered_json LoadJson(const LoadSeries& load) {
  return {{"operations", load.operations},
          {"per_second", load.per_second.Median()},
          {"per_second_low", load.per_second.Low()},
          {"per_second_high", load.per_second.High()},
          {"latency_us", LatencyJson(*load.latency_ns)},
          {"p50_us", SeriesJson(load.median_us)},
          {"p99_us", SeriesJson(load.p99_us)}};
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
  if (operation == "send") return "SEND, round trip";
  return operation == "write" ? "RDMA WRITE, to its completion" : "RDMA READ, to its completion";
}

using ByOperation = std::map<std::string, std::vector<const BenchRow*>>;

ByOperation RowsOf(const BenchRun& run) {
  ByOperation by_operation;
  for (const BenchRow& row : run.rows) by_operation[row.operation].push_back(&row);
  return by_operation;
}

PageSection LatencySection(const BenchRun& run) {
  PageSection section;
  section.title = "Latency";
  section.note =
      "All passes together. Values are upper bounds of log-linear buckets, at most 1/64 (1.6 %) "
      "too high.";
  const auto add = [&section](const std::string& title, const NamedLatencies& latencies) {
    if (latencies.empty()) return;
    section.charts.push_back(PercentileChart(title + ": percentiles", latencies));
    section.charts.push_back(CdfChart(title + ": distribution", latencies));
  };
  for (const auto& [operation, rows] : RowsOf(run)) add(TitleOf(operation), LatenciesOf(rows));
  if (run.beside.operations > 0) {
    add(absl::StrCat("64 B SENDs, each answered, on ", QueuePairs(run.small_pairs)),
        {{"alone", run.alone.latency_ns.get()},
         {"beside 1 MiB WRITEs on another", run.beside.latency_ns.get()}});
  }
  return section;
}

PageSection ThroughputSection(const BenchRun& run) {
  PageSection section;
  section.title = "Throughput by message size";
  Chart bytes{.title = "Throughput",
              .note = "Payload with many operations at once; medians of the passes.",
              .x = {"bytes of a message", Scale::kBytes},
              .y = {"throughput, Gb/s", Scale::kLog},
              .series = {}};
  Chart messages{.title = "Rate",
                 .note = "Operations, many at once.",
                 .x = {"bytes of a message", Scale::kBytes},
                 .y = {"million operations/s", Scale::kLog},
                 .series = {}};
  for (const auto& [operation, rows] : RowsOf(run)) {
    ChartSeries in_bytes{operation, {}}, in_messages{operation, {}};
    for (const BenchRow* row : rows) {
      if (!row->bytes) continue;
      in_bytes.points.emplace_back(*row->bytes, BytesPerSecond(*row) * 8e-9);
      in_messages.points.emplace_back(*row->bytes, row->rate.per_second.Median() * 1e-6);
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

// One point of each number of queue pairs of all cores, and of each number of cores.
PageSection ScalingSection(const BenchRun& run) {
  PageSection section;
  section.title = "Scaling by queue pairs and cores";
  section.note =
      "64 B SENDs on all of the queue pairs at once, with a completion each. Queue pairs are "
      "distributed over the cores of the client (--cores), and over those of the server.";
  if (run.pairs.empty()) return section;
  uint32_t all = 0;
  for (const PairsRow& row : run.pairs) all = std::max(all, row.cores);
  Chart pairs{.title = "64 B SENDs by queue pairs",
              .note = absl::StrCat("Of ", all, all == 1 ? " core" : " cores", " of the client."),
              .x = {"queue pairs", Scale::kLog},
              .y = {"million/s", Scale::kLinear},
              .series = {{"measured", {}}}};
  std::map<uint32_t, double> by_cores;
  for (const PairsRow& row : run.pairs) {
    const double rate = row.per_second.Median() * 1e-6;
    if (row.cores == std::min(all, row.queue_pairs)) {
      pairs.series[0].points.emplace_back(row.queue_pairs, rate);
    }
    by_cores[row.cores] = std::max(by_cores[row.cores], rate);
  }
  section.charts.push_back(std::move(pairs));
  if (by_cores.size() < 2) return section;
  Chart cores{.title = "64 B SENDs by cores of the client",
              .note = "For each number of cores, the best number of queue pairs.",
              .x = {"cores", Scale::kCount},
              .y = {"million/s", Scale::kLinear},
              .series = {{"measured", {by_cores.begin(), by_cores.end()}}}};
  section.charts.push_back(std::move(cores));
  return section;
}

std::string CoreToCore(const BenchRun& run) {
  const Series& ns = run.core_to_core_ns;
  if (ns.values.empty()) return kNoCoreToCore;
  return absl::StrFormat("%s: %.0f ns (%.0f to %.0f), around each measurement of %u %s",
                         DistanceName(run.distance), ns.Median(), ns.Low(), ns.High(), run.passes,
                         run.passes == 1 ? "pass" : "passes");
}

// What a table of figures has besides its rows of operations: name, median, low, high, unit.
std::vector<std::vector<std::string>> OtherFigures(const BenchRun& run) {
  std::vector<std::vector<std::string>> rows;
  const auto add = [&rows](const std::string& name, const Series& series, double unit_size,
                           const char* unit) {
    if (series.values.empty()) return;
    std::vector<std::string> row = {name};
    for (const double value : {series.Median(), series.Low(), series.High()}) {
      row.push_back(absl::StrFormat("%.3f", value * unit_size));
    }
    row.emplace_back(unit);
    rows.push_back(std::move(row));
  };
  add("1 MiB blocks by RPC, write", run.write_blocks, 1e-9, "GB/s");
  add("1 MiB blocks by RPC, read", run.read_blocks, 1e-9, "GB/s");
  for (const PairsRow& row : run.pairs) {
    add(absl::StrFormat("64 B SENDs, %s, %u core%s", QueuePairs(row.queue_pairs), row.cores,
                        row.cores == 1 ? "" : "s"),
        row.per_second, 1e-6, "M/s");
  }
  const std::string small = absl::StrCat("64 B on ", QueuePairs(run.small_pairs));
  add(small + " alone, median", run.alone.median_us, 1, "us");
  add(small + " alone, 99 %", run.alone.p99_us, 1, "us");
  add(small + " beside bulk, median", run.beside.median_us, 1, "us");
  add(small + " beside bulk, 99 %", run.beside.p99_us, 1, "us");
  add("1 MiB WRITEs alone", run.bulk_alone.per_second, kBulkBytes * 1e-9, "GB/s");
  add("1 MiB WRITEs beside small messages", run.bulk_beside.per_second, kBulkBytes * 1e-9, "GB/s");
  return rows;
}

std::string RunText(const BenchPlan& plan, const BenchRun& run) {
  std::string text;
  const auto line = [&text](const std::vector<std::string>& c) {
    absl::StrAppendFormat(&text, "%-9s %8s %9s %17s %9s %9s %9s %7s %11s %22s %8s\n", c[0], c[1],
                          c[2], c[3], c[4], c[5], c[6], c[7], c[8], c[9], c[10]);
  };
  if (!run.rows.empty()) {
    line({"operation", "size", "median us", "low to high", "99 % us", "99.9 % us", "max us",
          "at once", "per second", "low to high", "GB/s"});
  }
  for (const BenchRow& row : run.rows) line(Cells(row));
  for (const BenchRow& row : run.rows) {
    const std::string pace = OpenLoop(plan, row);
    if (!pace.empty()) {
      absl::StrAppendFormat(&text, "%-9s %8s  %s\n", row.operation, SizeOf(row), pace);
    }
  }
  const std::vector<std::vector<std::string>> others = OtherFigures(run);
  if (!others.empty()) {
    absl::StrAppendFormat(&text, "\n%-44s %9s %9s %9s\n", "", "median", "low", "high");
  }
  for (const std::vector<std::string>& row : others) {
    absl::StrAppendFormat(&text, "%-44s %9s %9s %9s  %s\n", row[0], row[1], row[2], row[3], row[4]);
  }
  const std::vector<Verdict> verdicts = BenchVerdicts(run);
  if (!verdicts.empty()) absl::StrAppend(&text, "\n", VerdictsText(verdicts));
  const std::string why = WhyUncounted(run.passes, run.distance);
  if (!verdicts.empty() && !why.empty()) absl::StrAppend(&text, why, "\n");
  absl::StrAppend(&text, "core to core, here: ", CoreToCore(run), "\n");
  return text;
}

nlohmann::ordered_json RunJson(const BenchPlan& plan, const BenchRun& run) {
  nlohmann::ordered_json json;
  json["cores"] = DistanceName(run.distance);
  json["passes"] = run.passes;
  json["measurements"] = nlohmann::ordered_json::array();
  for (const BenchRow& row : run.rows) {
    nlohmann::ordered_json one;
    one["operation"] = row.operation;
    if (row.bytes) one["bytes"] = *row.bytes;
    one["latency"] = LoadJson(row.latency);
    if (plan.per_second > 0 && RateIsKnown(plan)) {
      one["latency"]["rate_reached"] = RateReached(plan, row.latency);
    }
    one["rate"] = LoadJson(row.rate);
    one["rate"]["window"] = row.window;
    if (row.bytes) one["rate"]["bytes_per_second"] = BytesPerSecond(row);
    if (!row.core_to_core_ns.values.empty()) {
      one["core_to_core_ns"] = SeriesJson(row.core_to_core_ns);
    }
    json["measurements"].push_back(std::move(one));
  }
  for (const PairsRow& row : run.pairs) {
    nlohmann::ordered_json one = {{"queue_pairs", row.queue_pairs},
                                  {"cores", row.cores},
                                  {"per_second", SeriesJson(row.per_second)}};
    if (!row.core_to_core_ns.values.empty()) {
      one["core_to_core_ns"] = SeriesJson(row.core_to_core_ns);
    }
    json["pairs"].push_back(std::move(one));
  }
  if (run.beside.operations > 0) {
    json["beside_bulk"] = {{"queue_pairs", run.small_pairs},
                           {"alone", LoadJson(run.alone)},
                           {"beside", LoadJson(run.beside)},
                           {"bulk_alone", LoadJson(run.bulk_alone)},
                           {"bulk_beside", LoadJson(run.bulk_beside)}};
  }
  if (!run.core_to_core_ns.values.empty()) {
    json["core_to_core_ns"] = SeriesJson(run.core_to_core_ns);
  }
  for (const auto& [name, blocks] :
       {std::pair("write", &run.write_blocks), std::pair("read", &run.read_blocks)}) {
    if (blocks->values.empty()) continue;
    json[absl::StrCat(name, "_bytes_per_second")] = blocks->Median();
    json[absl::StrCat(name, "_bytes_per_second_low")] = blocks->Low();
    json[absl::StrCat(name, "_bytes_per_second_high")] = blocks->High();
  }
  json["verdicts_count"] = WhyUncounted(run.passes, run.distance).empty();
  json["ratios"] = VerdictsJson(BenchVerdicts(run));
  return json;
}

void AddSections(const BenchPlan& plan, const BenchRun& run, const std::string& of, Page* page) {
  const auto add = [&](PageSection section) {
    if (section.verdicts.empty() && section.charts.empty() && section.tables.empty()) return;
    absl::StrAppend(&section.title, of);
    page->sections.push_back(std::move(section));
  };
  add({.title = "Ratios and verdicts",
       .note = WhyUncounted(run.passes, run.distance),
       .verdicts = BenchVerdicts(run)});
  add(LatencySection(run));
  add(ThroughputSection(run));
  add(ScalingSection(run));
  PageTable all{"Medians of the passes, the lowest and the highest; 99.9 % and max of all passes",
                Head(),
                {}};
  for (const BenchRow& row : run.rows) all.rows.push_back(Cells(row));
  PageTable paces{"Latencies in an open loop", {"operation", "size", "pace"}, {}};
  for (const BenchRow& row : run.rows) {
    const std::string pace = OpenLoop(plan, row);
    if (!pace.empty()) paces.rows.push_back({row.operation, SizeOf(row), pace});
  }
  PageTable others{"Others", {"figure", "median", "low", "high", "unit"}, OtherFigures(run)};
  PageSection figures{.title = "All figures"};
  for (PageTable* table : {&all, &paces, &others}) {
    if (!table->rows.empty()) figures.tables.push_back(std::move(*table));
  }
  add(std::move(figures));
}

// Where there are passes of several kinds.
std::string Apart(const BenchResult& result, const BenchRun& run) {
  return result.runs.size() < 2 ? "" : absl::StrCat("cores ", DistanceName(run.distance));
}

}  // namespace

std::string BenchText(const BenchPlan& plan, const BenchResult& result) {
  std::string text;
  for (const BenchRun& run : result.runs) {
    const std::string apart = Apart(result, run);
    if (!apart.empty()) absl::StrAppend(&text, text.empty() ? "" : "\n", apart, "\n");
    absl::StrAppend(&text, RunText(plan, run));
  }
  return text;
}

nlohmann::ordered_json BenchJson(const BenchPlan& plan, const BenchResult& result) {
  nlohmann::ordered_json json;
  json["asked_per_second"] = plan.per_second;
  json["window"] = plan.window;
  for (const BenchRun& run : result.runs) {
    if (&run == &result.runs.front()) {
      json.update(RunJson(plan, run));
    } else {
      json["apart"].push_back(RunJson(plan, run));
    }
  }
  return json;
}

Page BenchPage(const BenchPlan& plan, const BenchResult& result,
               std::vector<std::pair<std::string, std::string>> conditions) {
  Page page;
  page.title = "pollux bench";
  page.lead =
      "Verbs and RPC-over-RDMA between two machines, as the client saw it. Latencies are "
      "round trips. Only ratios within a run are meaningful.";
  conditions.emplace_back(
      "latencies", plan.per_second > 0
                       ? absl::StrFormat("open loop, %s operations/s, measured from when "
                                         "an operation was due (no coordinated omission); those "
                                         "beside bulk closed loop",
                                         ShortNumber(plan.per_second))
                       : "closed loop, one operation at a time");
  conditions.emplace_back("rates",
                          absl::StrFormat("closed loop, at most %u under way", plan.window));
  conditions.emplace_back("passes", absl::StrCat(plan.passes, ", each of all measurements"));
  if (!result.status.ok()) {
    conditions.emplace_back("measurements ended early because of", result.status.message());
  }
  conditions.emplace_back(
      "length of a measurement",
      absl::StrCat("at most ", Grouped(plan.count), " operations",
                   plan.seconds > 0 ? absl::StrFormat(" and %g s", plan.seconds) : "",
                   plan.seconds > 0 && plan.per_second > 0
                       ? "; in an open loop, operations that were due by then still run"
                       : ""));
  for (const BenchRun& run : result.runs) {
    conditions.emplace_back("core to core, client", CoreToCore(run));
  }
  page.conditions = std::move(conditions);
  for (const BenchRun& run : result.runs) {
    const std::string apart = Apart(result, run);
    AddSections(plan, run, apart.empty() ? "" : absl::StrCat(", ", apart), &page);
  }
  return page;
}

}  // namespace pollux::tools
