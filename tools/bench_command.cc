// pollux bench: measurements against a server elsewhere, and that server.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "tools/bench/core_to_core.h"
#include "tools/bench/page.h"
#include "tools/bench/run.h"
#include "tools/bench/run_report.h"
#include "tools/bench/verbs_server.h"
#include "tools/commands.h"
#include "tools/file_servers.h"
#include "tools/interrupt.h"
#include "tools/remote.h"
#include "tools/report.h"
#include "tools/served_at.h"
#include "tools/session.h"

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
  status = Explain(node, absl::OkStatus());
  if (!status.ok()) return status;
  Log(absl::StrCat("serving measurements at ", ListOf(ServedAt(node, port)), ", verbs at port ",
                   options.verbs_port, ", on ", Place(options.remote.port.device)));
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
  const std::optional<double> before_ns = CoreToCoreNs();
  auto connected = Remote::Connect(options.remote, server);
  if (!connected.ok()) return Finish("bench", json, connected.status(), {}, "");
  Node& node = (*connected)->node();
  const cm::Endpoint verbs = {.address = (*connected)->server(),
                              .port = static_cast<uint16_t>(options.verbs_port)};
  BenchRun run = RunBench(node, (*connected)->client(), verbs, options.plan,
                          [json](const std::string& what, bool as_bytes) {
                            return json ? Progress() : ProgressBar(what, as_bytes);
                          });
  nlohmann::ordered_json counters;
  AddCounters(node, &counters);
  absl::Status status = Explain(node, run.status);
  auto conditions = Conditions(options, server, node);
  connected->reset();  // no core of this process polls any more
  if (status.ok()) {
    run.core_to_core_before_ns = before_ns;
    run.core_to_core_after_ns = CoreToCoreNs();
    status = page.Write(BenchPage(options.plan, run, std::move(conditions)));
  }
  nlohmann::ordered_json out = BenchJson(options.plan, run);
  out.update(counters);
  return Finish("bench", json, status, out, BenchText(run));
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
      "operation at a time, then the rate of many at once. A SEND's latency is that of its\n"
      "answer by another; a WRITE's and a READ's is that of its completion.");
  DeclareRemoteOptions(options, &bench.remote);
  options.Switch("server", "serve measurements until SIGINT or SIGTERM", &bench.server);
  options.Number("verbs-port", "port of the server's verbs (18515)", 1, 65535, &bench.verbs_port);
  options.Parsed("measure", "LIST",
                 "of null,blocks,send,write,read (all); a pollux serve\nanswers null,blocks",
                 [&plan](const std::string& list) { return plan.SetWhat(list); });
  options.Parsed("sizes", "LIST",
                 "bytes of a message (2,64,1024,8192,65536,1048576); all:\nthe powers of two",
                 [&plan](const std::string& list) { return plan.SetSizes(list); });
  options.Number("count", "operations a measurement, at most (100000)", 1, 1'000'000'000,
                 &plan.count);
  options.Real("seconds", "and its length, at most; 0: no limit (2)", 0, 86'400, &plan.seconds);
  options.Number("window",
                 "operations at once when rates are measured, at most (128);\n256 of verbs", 1,
                 LoadOptions::kMaxWindow, &window);
  options.Real("rate",
               "latencies by an open loop: so many operations a second become\n"
               "due, and wait where the window is full (0: one at a time)",
               0, 1e9, &plan.per_second);
  options.Number("mib", "MiB of blocks to write and read (256)", 1, 1 << 20, &plan.mib);
  options.Text("html", "FILE", "write a page with the distributions and curves too", &bench.html);
  auto operands = options.Parse(argc, argv, 0, 1);
  if (!operands.ok()) return Fail("bench", operands.status());
  if (options.help_asked()) return Finish("bench", false, absl::OkStatus(), {}, options.Help());
  if (bench.server == (operands->size() == 1)) {
    return Fail("bench", absl::InvalidArgumentError(
                             "client or server? give either ADDR or --server; usage: pollux "
                             "bench [options] ADDR | bench --server [options]"));
  }
  plan.window = static_cast<uint32_t>(window);
  if (!bench.server) return Measure(bench, operands->front());
  CatchInterrupts();
  return Finish("bench", bench.remote.json, ServeMeasurements(bench), {}, "");
}

}  // namespace pollux::tools
