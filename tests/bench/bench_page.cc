#include "tests/bench/bench_page.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/bench/passes.h"
#include "tests/bench/results.h"
#include "tests/bench/targets.h"

namespace pollux::bench {
namespace {

using tools::Chart;
using tools::PageSection;
using tools::Scale;

// What the ratios with them cannot say.
constexpr char kAboutPeers[] =
    " Peers are two processes each: UCX over TCP by loopback and over shared memory, qperf and "
    "sockperf over the kernel's TCP on a veth. The kernel's TCP in batched writes carries more "
    "tiny "
    "messages than any scheme of a packet each can, and shared memory without packets is faster "
    "than any packet.";

PageSection LatencySection(const Figures& figures) {
  PageSection section;
  section.note =
      "All passes together. Values are upper bounds of log-linear buckets, at most 1/64 "
      "(1.6 %) too high.";
  const auto add = [&](const std::string& title, const std::string& prefix) {
    tools::NamedLatencies latencies;
    for (const auto& [name, histogram] : figures.latencies_ns) {
      if (name.find(prefix) == 0) latencies.emplace_back(name, histogram.get());
    }
    if (latencies.empty()) return;
    section.charts.push_back(PercentileChart(title + ": percentiles", latencies));
    section.charts.push_back(CdfChart(title + ": distribution", latencies));
  };
  add("64 B SEND, answered by a SEND", "SEND");
  add("64 B there and back, by packet sockets on a veth pair", "64 B round trip by veth");
  add("NULL RPC, one after the other", "NULL RPC round");
  add("NULL RPC when both ends idle in between", "NULL RPC, 1,000/s");
  add("Small messages on a thousand queue pairs", "1,000 small");
  return section;
}

PageSection ThroughputSection(const Figures& figures) {
  Chart chart{.title = "Throughput",
              .note = "One queue pair, as many messages under way as fit into 4 MiB, at most 128.",
              .x = {"bytes of a message", Scale::kBytes},
              .y = {"throughput, Gb/s", Scale::kLog},
              .series = {}};
  for (const char* operation : {"SEND", "WRITE", "READ"}) {
    tools::ChartSeries series{operation, {}};
    for (const uint32_t bytes : kSizes) {
      series.points.emplace_back(bytes, figures.Median(SizeFigure(operation, bytes)));
    }
    chart.series.push_back(std::move(series));
  }
  Chart loss{
      .title = "Goodput under loss",
      .note = "1 MiB WRITEs; frames lost at random, both ways. The dashed line is the target.",
      .x = {"frames lost, %", Scale::kLog},
      .y = {"rate / lossless rate", Scale::kLinear},
      .series = {{"measured", {}}, {"target", {}}}};
  const std::vector<tools::Verdict> verdicts = Verdicts(figures);
  for (const double lost : kLosses) {
    const tools::Verdict* of = Find(verdicts, LossRatio(lost));
    if (of == nullptr) continue;
    loss.series[0].points.emplace_back(100 * lost, of->value());
    loss.series[1].points.emplace_back(100 * lost, of->target.value_or(0));
  }
  return {.charts = {std::move(chart), std::move(loss)}};
}

PageSection ScalingSection(const Figures& figures) {
  PageSection section;
  section.note =
      "One core runs both ends by turns; two run one each. More cores are more such "
      "pairs, each with a wire of its own: workers share nothing, so that what the "
      "curve falls short of the line is what the machine shares: "
      "caches, memory, and the clock that many busy cores lower.";
  for (const bool bulk : {false, true}) {
    Chart cores{.title = bulk ? "1 MiB WRITEs by cores" : "64 B SENDs by cores",
                .note = "",
                .x = {"cores", Scale::kCount},
                .y = {bulk ? "throughput, Gb/s" : "SENDs, million/s", Scale::kLinear},
                .series = {{"measured", {}}, {"linear in pairs of cores", {}}}};
    const double one = figures.Median(bulk ? "WRITE 1 MiB, 1 core" : "SEND 64 B stream, 1 core");
    cores.series[0].points.emplace_back(1, one);
    const double two = figures.Median(WorkersFigure(1, bulk));
    for (const unsigned pairs : kWorkerPairs) {
      const double sum = figures.Median(WorkersFigure(pairs, bulk));
      if (sum == 0) continue;
      cores.series[0].points.emplace_back(2 * pairs, sum);
      cores.series[1].points.emplace_back(2 * pairs, two * pairs);
    }
    // Through one point there is no line.
    if (cores.series[1].points.size() < 2) cores.series.pop_back();
    section.charts.push_back(std::move(cores));
  }
  Chart pairs{.title = "By queue pairs",
              .note = "All of them active: messages go round them, singly and by 16.",
              .x = {"active queue pairs", Scale::kLog},
              .y = {"64 B SENDs, million/s", Scale::kLinear},
              .series = {}};
  for (const uint32_t burst : {1u, 16u}) {
    tools::ChartSeries series{burst == 1 ? "one at a time" : "16 at a time", {}};
    for (const uint32_t count : kManyPairs) {
      series.points.emplace_back(count, figures.Median(PairsFigure(count, burst)));
    }
    pairs.series.push_back(std::move(series));
  }
  section.charts.push_back(std::move(pairs));
  return section;
}

std::vector<tools::PageTable> FiguresTables(const Figures& figures) {
  tools::PageTable table{
      "All figures: medians of the passes", {"figure", "median", "low", "high", "unit"}, {}};
  for (const auto& [name, series] : figures.series) {
    table.rows.push_back({name, absl::StrFormat("%.3f", series.Median()),
                          absl::StrFormat("%.3f", series.Low()),
                          absl::StrFormat("%.3f", series.High()), series.unit});
  }
  std::vector<tools::PageTable> tables = {std::move(table)};
  if (figures.missing.empty()) return tables;
  tools::PageTable missing{"Not measured", {"what", "why"}, {}};
  for (const auto& [what, why] : figures.missing) missing.rows.push_back({what, why});
  tables.push_back(std::move(missing));
  return tables;
}

}  // namespace

tools::Page BenchPage(const Results& results, uint64_t passes, double scale,
                      const absl::Status& status) {
  tools::Page page;
  page.title = "Pollux benchmark";
  page.lead =
      "Pollux over devices of one process, each end on a core of its own, beside the bare "
      "device and the least work that any RoCE stack does on it (+work: headers, ICRC both "
      "ways, payload copied on both sides, no protocol). Only ratios within a run are "
      "meaningful.";
  page.conditions = tools::MachineConditions();
  page.conditions.emplace_back(
      "passes", absl::StrCat(passes, ", interleaved; medians unless stated otherwise"));
  if (!status.ok())
    page.conditions.emplace_back("measurements ended early because of", status.message());
  page.conditions.emplace_back("length of the measurements",
                               absl::StrFormat("%g of the usual", scale));
  for (const Results::Section& of : results.Sections()) {
    const auto measured = of.figures->series.find(kCoreToCore);
    const bool known = measured != of.figures->series.end();
    const Series ns = known ? measured->second : Series();
    page.conditions.emplace_back(
        absl::StrCat("core to core, ", of.name),
        known ? absl::StrFormat("%s: %.0f ns (%.0f to %.0f), between the parts of %u of the passes",
                                tools::DistanceName(of.cores), ns.Median(), ns.Low(), ns.High(),
                                of.passes)
              : tools::kNoCoreToCore);
  }
  for (const Results::Section& of : results.Sections()) {
    const auto add = [&](PageSection section, const char* title) {
      if (section.verdicts.empty() && section.charts.empty() && section.tables.empty()) return;
      section.title = absl::StrCat(of.name, ": ", title);
      page.sections.push_back(std::move(section));
    };
    add({.note = absl::StrCat(tools::WhyUncounted(of.passes, of.cores),
                              of.wire == Wire::kMemif ? kAboutPeers : ""),
         .verdicts = Verdicts(*of.figures)},
        "ratios and verdicts");
    add(LatencySection(*of.figures), "Latency");
    if (of.wire != Wire::kAfPacket) {
      add(ThroughputSection(*of.figures), "Throughput by message size, and under loss");
      add(ScalingSection(*of.figures), "Scaling");
    }
    add({.tables = FiguresTables(*of.figures)}, "all figures");
  }
  return page;
}

}  // namespace pollux::bench
