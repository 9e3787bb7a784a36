// pollux bench: measurements against a server elsewhere, and that server.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tools/bench/core_to_core.h"
#include "tools/bench/page.h"
#include "tools/bench/run.h"
#include "tools/bench/run_report.h"
#include "tools/bench/verbs_server.h"
#include "tools/common/interrupt.h"
#include "tools/common/listen_addresses.h"
#include "tools/common/report.h"
#include "tools/file_service/session.h"
#include "tools/pollux/commands.h"
#include "tools/pollux/file_servers.h"
#include "tools/pollux/remote.h"

namespace pollux::tools {
namespace {

struct BenchOptions {
  RemoteOptions remote;
  BenchPlan plan;
  bool server = false;
  uint64_t verbs_port = kBenchVerbsPort;
  std::string html;
};

void Log(const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }

// Both services, until interrupted. The blocks lie in memory: no disk is measured.
absl::Status ServeMeasurements(const BenchOptions& options) {
  std::string directory = "/dev/shm/pollux-bench-XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) return absl::ErrnoToStatus(errno, directory);
  const absl::Cleanup remove = [&] {
    std::error_code ignored;
    std::filesystem::remove_all(directory, ignored);
  };
  auto started = StartNode(options.remote.port, Cores::kMany);
  if (!started.ok()) return started.status();
  Node& node = **started;
  const auto port = static_cast<uint16_t>(options.remote.service_port);
  auto calls = FileServers::Listen(&node, directory, {.port = port, .log = Log});
  if (!calls.ok()) return calls.status();
  std::vector<std::unique_ptr<VerbsServer>> verbs(node.cores());
  const absl::Cleanup end = [&] {
    node.RunOnEach([&](uint32_t core) { verbs[core].reset(); });
    (*calls)->Goodbye();
  };
  absl::Status status;
  node.RunOnEach([&](uint32_t core) {
    auto listening = VerbsServer::Listen(&node.worker(core), &node.manager(core),
                                         static_cast<uint16_t>(options.verbs_port), Log);
    status.Update(listening.status());
    if (listening.ok()) verbs[core] = *std::move(listening);
  });
  if (!status.ok()) return status;
  SleepUntilInterrupted(kProbeMs);
  if (const auto conflict = AddressConflict(node)) return absl::AlreadyExistsError(*conflict);
  Log(absl::StrCat("serving measurements at ", ListOf(ListenAddresses(node, port)),
                   ", verbs at port ", options.verbs_port, ", on ",
                   Place(options.remote.port.device)));
  return StayUntilInterrupted(node);
}

std::vector<std::pair<std::string, std::string>> Conditions(const BenchOptions& options,
                                                            const std::string& server, Node& node) {
  auto conditions = MachineConditions();
  conditions.emplace_back("server", server);
  conditions.emplace_back("client's port", Place(options.remote.port.device));
  conditions.emplace_back(
      "path MTU of the port",
      ShortBytes(node.Run([&node] { return 128u << node.device().interface().active_mtu(); })));
  return conditions;
}

int Measure(const BenchOptions& options, const std::string& server) {
  const bool json = options.remote.json;
  PageFile page(options.html);
  if (!page.status().ok()) return Finish("bench", json, page.status(), {}, "");
  // Before the port takes CPUs of its own.
  const std::vector<int> cpus = UsableCpus();
  auto connected = Remote::Connect(options.remote, server, Cores::kMany);
  if (!connected.ok()) return Finish("bench", json, connected.status(), {}, "");
  Node& node = (*connected)->node();
  const SocketAddress verbs = {.address = (*connected)->server(),
                               .port = static_cast<uint16_t>(options.verbs_port)};
  bool bar_stands = false;  // with the cursor behind it
  const BenchResult result =
      RunBench(node, (*connected)->client(), verbs, options.plan, cpus,
               [json, &bar_stands](const std::string& what, uint64_t done, uint64_t total) {
                 const Progress bar = json ? nullptr : ProgressBar(what, false);
                 if (bar == nullptr) return;
                 bar(done, total);
                 bar_stands = done < total;
               });
  if (bar_stands) std::fputc('\n', stderr);
  nlohmann::ordered_json counters;
  AddCounters(node, &counters);
  absl::Status status = Explain(node, result.status);
  const bool complete_passes = !result.runs.empty();
  auto conditions = Conditions(options, server, node);
  connected->reset();  // no core of this process polls any more
  if (status.ok() || complete_passes) {
    status.Update(page.Write(BenchPage(options.plan, result, std::move(conditions))));
  }
  nlohmann::ordered_json out = BenchJson(options.plan, result);
  out.update(counters);
  const std::string text = BenchText(options.plan, result);
  // Passes that came to their end are told, whatever ended those after them.
  if (!json && !status.ok() && complete_passes) status.Update(PrintOut(text));
  return Finish("bench", json, status, out, text);
}

// What a server would not look at.
absl::Status CheckServer(const Options& options) {
  constexpr absl::string_view kClients[] = {"measure", "sizes",  "pairs", "passes", "count",
                                            "seconds", "window", "rate",  "mib",    "html"};
  for (const auto& [name, value] : options.given()) {
    if (std::find(std::begin(kClients), std::end(kClients), name) == std::end(kClients)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, " is the client's: --server measures nothing itself"));
  }
  return absl::OkStatus();
}

}  // namespace

int BenchCommand(int argc, char** argv) {
  BenchOptions bench;
  BenchPlan& plan = bench.plan;
  uint64_t window = plan.window;
  Options options(
      "bench [options] ADDR | bench --server [options]",
      "Measures NULL RPCs, 1 MiB blocks by RPC, and SEND, RDMA WRITE and READ of every size\n"
      "between this machine and one where `pollux bench --server` runs: the latency of one\n"
      "operation at a time, then the rate of many at once; then SENDs on several queue pairs\n"
      "(of --cores), and small messages beside bulk. A SEND's latency is that of its answer by\n"
      "another; a WRITE's and a READ's is that of its completion. All of it in each of several\n"
      "passes: medians, lows and highs, and verdicts where a ratio has a target. The cost from\n"
      "core to core here is measured around each measurement; passes with near cores and\n"
      "passes with far ones stand apart.");
  DeclareRemoteOptions(options, &bench.remote);
  options.Switch("server", "serve measurements until SIGINT or SIGTERM", &bench.server);
  options.Number("verbs-port", "port of the server's verbs (18515)", 1, 65535, &bench.verbs_port);
  options.Parsed(
      "measure", "LIST",
      "of null,blocks,send,write,read,pairs,beside (all); a pollux\nserve answers null,blocks",
      [&plan](const std::string& list) { return plan.SetWhat(list); });
  options.Parsed("sizes", "LIST",
                 "bytes of a message (2,64,1024,8192,65536,1048576); all:\nthe powers of two",
                 [&plan](const std::string& list) { return plan.SetSizes(list); });
  options.Parsed("pairs", "LIST", "queue pairs of pairs (1,4,16,64); beside has the most of them",
                 [&plan](const std::string& list) { return plan.SetPairs(list); });
  options.Number("passes",
                 "passes, of which the median is taken (5); verdicts of fewer\ndo not count", 1,
                 1000, &plan.passes);
  options.Number("count", "operations a measurement, at most (100000)", 1, 1'000'000'000,
                 &plan.count);
  options.Real("seconds",
               "and its length, at most; 0: no limit (0.2). What was due\n"
               "by then in an open loop is still served",
               0, 86'400, &plan.seconds);
  options.Number("window",
                 "operations at once when rates are measured, at most (128);\n256 of verbs", 1,
                 LoadOptions::kMaxWindow, &window);
  options.Real("rate",
               "latencies of null, send, write and read by an open loop: so\n"
               "many operations a second become due, and wait where the\n"
               "window is full (0: one at a time)",
               0, 1e9, &plan.per_second);
  options.Number("mib", "MiB of blocks to write and to read in a pass (32)", 1, 1 << 20, &plan.mib);
  options.Text("html", "FILE", "write a page with distributions, curves and verdicts too",
               &bench.html);
  auto operands = options.Parse(argc, argv, 0, 1);
  if (!operands.ok()) return Fail("bench", operands.status());
  if (options.help_asked()) return Finish("bench", false, absl::OkStatus(), {}, options.Help());
  if (bench.server == (operands->size() == 1)) {
    return Fail("bench", absl::InvalidArgumentError(
                             "client or server? give either ADDR or --server; usage: pollux "
                             "bench [options] ADDR | bench --server [options]"));
  }
  const absl::Status checked = bench.server ? CheckServer(options) : plan.Check();
  if (!checked.ok()) return Fail("bench", checked);
  plan.window = static_cast<uint32_t>(window);
  if (!bench.server) return Measure(bench, operands->front());
  CatchInterrupts();
  return Finish("bench", bench.remote.json, ServeMeasurements(bench), {}, "");
}

}  // namespace pollux::tools
