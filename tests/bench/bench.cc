// The benchmark: what the device can do, what Pollux does over it, the ratio of the two, in one
// run.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "stack/engine/eal.h"
#include "tests/bench/bench_page.h"
#include "tests/bench/bench_text.h"
#include "tests/bench/history_page.h"
#include "tests/bench/memory_cost.h"
#include "tests/bench/other_measurements.h"
#include "tests/bench/passes.h"
#include "tests/bench/results.h"
#include "tests/bench/tail.h"
#include "tests/bench/wires.h"
#include "tools/bench/page.h"
#include "tools/common/options.h"

namespace pollux::bench {
namespace {

using Json = nlohmann::ordered_json;

struct BenchOptions {
  uint64_t passes = tools::kMinPasses;
  bool json = false;
  bool ring_only = false;
  bool memory = false;
  bool tail = false;
  double seconds = 60;
  std::string html;
  PassOptions pass;
};

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

// `bench history HISTORY PAGE`, for history.py.
int DrawHistory(const std::string& history, const std::string& path) {
  std::ifstream file(history);
  if (!file)
    return Fail(absl::NotFoundError(absl::StrCat(history, " cannot be read")), tools::kExitFailure);
  const std::string lines{std::istreambuf_iterator<char>(file), {}};
  const absl::StatusOr<tools::Page> page = HistoryPage(lines);
  if (!page.ok()) {
    return Fail(absl::InvalidArgumentError(absl::StrCat(history, ": ", page.status().message())),
                tools::kExitFailure);
  }
  const absl::Status status = tools::PageFile(path).Write(*page);
  return status.ok() ? tools::kExitOk : Fail(status, tools::kExitFailure);
}

int PrintTail(double seconds, bool json) {
  const absl::StatusOr<Tail> tail = MeasureTail(seconds);
  if (!tail.ok()) return Fail(tail.status(), tools::kExitFailure);
  std::printf("%s", json ? (TailJson(*tail).dump() + "\n").c_str() : TailText(*tail).c_str());
  return tools::kExitOk;
}

int Measure(const BenchOptions& options) {
  tools::PageFile page(options.html);
  absl::Status status = page.status();
  if (!status.ok()) return Fail(status, tools::kExitFailure);
  std::vector<Wire> wires;
  for (const Wire wire : {Wire::kRing, Wire::kMemif, Wire::kAfPacket}) {
    const bool asked = wire == Wire::kRing || !options.ring_only;
    if (asked && HasPart(wire, options.pass.parts)) wires.push_back(wire);
  }
  Results results;
  status = RunPasses(
      options.passes, wires,
      [&options](uint64_t pass, Wire wire, Figures& figures) {
        std::fprintf(stderr, "pass %u of %u, %s\n", static_cast<unsigned>(pass),
                     static_cast<unsigned>(options.passes), WireName(wire));
        return RunPass(wire, options.pass, figures);
      },
      results);
  if (status.ok() || !results.Sections().empty()) {
    status.Update(page.Write(BenchPage(results, options.passes, options.pass.scale, status)));
  }
  Json out;
  out["passes"] = options.passes;
  if (!status.ok()) out["error"] = std::string(status.message());
  for (const Results::Section& of : results.Sections()) {
    if (!options.json) PrintSection(of);
    out[of.name] = SectionJson(of);
  }
  if (options.json) std::printf("%s\n", out.dump().c_str());
  return status.ok() ? tools::kExitOk : Fail(status, tools::kExitFailure);
}

int Main(int argc, char** argv) {
  const std::string other = argc > 1 ? argv[1] : "";
  if (other == "native") return MeasureNative(argc - 1, argv + 1);
  if (other == "paths") return MeasurePaths(argc - 1, argv + 1);
  if (other == "history" && argc == 4) return DrawHistory(argv[2], argv[3]);
  BenchOptions bench;
  tools::Options options(
      "bench [options]   (tools/dev bench)",
      "Measures, pass by pass and interleaved, the bare device, the least work\n"
      "that any RoCE stack does (+work), Pollux over the same device, libtirpc over\n"
      "TCP, UCX, qperf and sockperf, and compares the ratios of each pass with their\n"
      "targets. The cost of passing a cache line from core to core is measured before\n"
      "and after each part; passes with near and with far cores are reported separately.");
  options.Number("passes",
                 "number of passes (5); figures are their medians, and with\nfewer than 5 verdicts "
                 "do not count",
                 1, 1000, &bench.passes);
  options.Real("scale", "length of each measurement (1)", 0.001, 1000, &bench.pass.scale);
  options.Text("peers", "FILE",
               "peers.py, which measures UCX, qperf and sockperf; set by\ntools/dev bench",
               &bench.pass.peers);
  options.Switch("ring-only", "leave out net_memif, net_af_packet, UCX, qperf and sockperf",
                 &bench.ring_only);
  options.Switch("memory", "measure only the bytes per queue pair, region and connection",
                 &bench.memory);
  options.Switch(
      "tail", "measure only the longest round trips, and how long the\nmachine's CPUs stand still",
      &bench.tail);
  options.Real("seconds", "how long --tail measures each of both (60)", 0.01, 86'400,
               &bench.seconds);
  options.Switch("json", "one JSON object on standard output instead of tables", &bench.json);
  options.Text("html", "FILE", "also write a page with distributions, curves and verdicts",
               &bench.html);
  options.Text("part", "LIST",
               absl::StrCat("run only these parts, such as rpc,tirpc\n(of ", PartNames(), ")"),
               &bench.pass.parts);
  const auto operands = options.Parse(argc, argv, 0, 0);
  absl::Status status = operands.status();
  status.Update(CheckParts(bench.pass.parts));
  if (!bench.pass.parts.empty() && !bench.html.empty()) {
    status.Update(absl::InvalidArgumentError("--html is a page of all parts: leave out --part"));
  }
  if (!status.ok()) return Fail(status, tools::kExitUsage);
  if (options.help_asked()) {
    std::printf("%s", options.Help().c_str());
    return tools::kExitOk;
  }
  status = engine::InitEal({.memory_mib = 1024});
  if (!status.ok()) return Fail(status, tools::kExitFailure);
  if (bench.memory) return PrintMemory(bench.json);
  return bench.tail ? PrintTail(bench.seconds, bench.json) : Measure(bench);
}

}  // namespace
}  // namespace pollux::bench

int main(int argc, char** argv) { return pollux::bench::Main(argc, argv); }
