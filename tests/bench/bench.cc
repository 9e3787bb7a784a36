// The benchmark: what the device can do, what Pollux does over it, the ratio of the two, in one
// run.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_format.h"
#include "stack/engine/eal.h"
#include "tests/bench/bench_page.h"
#include "tests/bench/figures.h"
#include "tests/bench/memory_cost.h"
#include "tests/bench/passes.h"
#include "tests/bench/results.h"
#include "tests/bench/wires.h"
#include "tools/bench/page.h"
#include "tools/options.h"
#include "tools/report.h"

namespace pollux::bench {
namespace {

using Json = nlohmann::ordered_json;

struct BenchOptions {
  uint64_t passes = 5;
  double scale = 1;
  bool json = false;
  bool ring_only = false;
  bool memory = false;
  std::string html;
  std::string parts;
};

Json ToJson(const Results::Section& of) {
  const Figures& figures = *of.figures;
  Json json;
  json["cores"] = CoresName(of.cores);
  json["passes"] = of.passes;
  for (const auto& [name, series] : figures.series) {
    json["figures"][name] = {{"unit", series.unit},
                             {"median", series.Median()},
                             {"low", series.Low()},
                             {"high", series.High()}};
  }
  for (const auto& [name, latency_ns] : figures.latencies_ns) {
    json["latencies_us"][name] = tools::LatencyJson(*latency_ns);
  }
  for (const tools::Verdict& verdict : Verdicts(figures)) {
    json["ratios"][verdict.name] = {{"median", verdict.value},
                                    {verdict.at_most ? "at_most" : "at_least", verdict.target},
                                    {"met", verdict.met()}};
  }
  for (const auto& [what, why] : figures.missing) json["missing"][what] = why;
  return json;
}

void Print(const Results::Section& of) {
  const Figures& figures = *of.figures;
  std::printf("\n%s (cores %s)\n%-44s%12s%12s%12s\n", of.name.c_str(), CoresName(of.cores), "",
              "median", "low", "high");
  for (const auto& [name, series] : figures.series) {
    std::printf("%-44s%12.3f%12.3f%12.3f  %s\n", name.c_str(), series.Median(), series.Low(),
                series.High(), series.unit.c_str());
  }
  std::printf("\n%-44s%12s%12s\n", "ratio", "median", "target");
  for (const tools::Verdict& verdict : Verdicts(figures)) {
    std::printf("%-44s%12.2f%12s  %s\n", verdict.name.c_str(), verdict.value,
                absl::StrFormat("%s%.2f", verdict.at_most ? "<= " : ">= ", verdict.target).c_str(),
                verdict.met() ? "met" : "not met");
  }
  for (const auto& [what, why] : figures.missing) {
    std::printf("%s: not measured: %s\n", what.c_str(), why.c_str());
  }
}

int PrintMemory(bool json) {
  Json out;
  if (!json) std::printf("%-36s%12s%12s\n", "bytes of one", "measured", "at most");
  for (const MemoryCost& cost : MeasureMemoryCosts()) {
    out["memory"][cost.what] = {{"bytes", cost.bytes}, {"at_most", cost.most}};
    if (!json) std::printf("%-36s%12.0f%12.0f\n", cost.what.c_str(), cost.bytes, cost.most);
  }
  if (json) std::printf("%s\n", out.dump().c_str());
  return tools::kExitOk;
}

int Fail(const absl::Status& status, int exit_status) {
  std::fprintf(stderr, "bench: %s\n", std::string(status.message()).c_str());
  return exit_status;
}

int Measure(const BenchOptions& options) {
  tools::PageFile page(options.html);
  absl::Status status = page.status();
  Results results;
  for (uint64_t pass = 0; pass < options.passes && status.ok(); ++pass) {
    for (const Wire wire : {Wire::kRing, Wire::kMemif, Wire::kAfPacket}) {
      const bool asked = wire == Wire::kRing || !options.ring_only;
      if (!status.ok() || !asked || !HasPart(wire, options.parts)) continue;
      std::fprintf(stderr, "pass %u of %u, %s\n", static_cast<unsigned>(pass + 1),
                   static_cast<unsigned>(options.passes), WireName(wire));
      Figures figures;
      status = RunPass(wire, options.scale, options.parts, figures);
      results.Add(wire, figures);
    }
  }
  if (status.ok()) status = page.Write(BenchPage(results, options.passes, options.scale));
  if (!status.ok()) return Fail(status, tools::kExitFailure);
  Json out;
  out["passes"] = options.passes;
  for (const Results::Section& of : results.Sections()) {
    if (!options.json) Print(of);
    out[of.name] = ToJson(of);
  }
  if (options.json) std::printf("%s\n", out.dump().c_str());
  return tools::kExitOk;
}

int Main(int argc, char** argv) {
  BenchOptions bench;
  tools::Options options(
      "bench [options]   (tools/dev bench)",
      "Measures, pass by pass and interleaved, the bare device, the least work\n"
      "that any RoCE stack does (+work), and Pollux over the same device. The cost of\n"
      "passing a cache line from core to core is measured before and after each\n"
      "part; passes with near cores and passes with far ones stand apart.");
  options.Number("passes", "passes, of which the median is taken (5)", 1, 1000, &bench.passes);
  options.Real("scale", "length of each measurement (1)", 0.001, 1000, &bench.scale);
  options.Switch("ring-only", "leave out net_memif and net_af_packet", &bench.ring_only);
  options.Switch("memory", "instead: what a queue pair, a region, a connection cost in bytes",
                 &bench.memory);
  options.Switch("json", "one JSON object on standard output instead of tables", &bench.json);
  options.Text("html", "FILE", "write a page with distributions, curves and verdicts too",
               &bench.html);
  options.Text("part", "LIST", "of each pass these parts alone, as in: rpc,tirpc", &bench.parts);
  const auto operands = options.Parse(argc, argv, 0, 0);
  absl::Status status = operands.status();
  status.Update(CheckParts(bench.parts));
  if (!bench.parts.empty() && !bench.html.empty()) {
    status.Update(absl::InvalidArgumentError("--html is a page of all parts: leave out --part"));
  }
  if (!status.ok()) return Fail(status, tools::kExitUsage);
  if (options.help_asked()) {
    std::printf("%s", options.Help().c_str());
    return tools::kExitOk;
  }
  status = engine::InitEal({.memory_mib = 1024});
  if (!status.ok()) return Fail(status, tools::kExitFailure);
  return bench.memory ? PrintMemory(bench.json) : Measure(bench);
}

}  // namespace
}  // namespace pollux::bench

int main(int argc, char** argv) { return pollux::bench::Main(argc, argv); }
