// pollux bench: measurements against a server elsewhere, and that server.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "tools/bench/assertion.h"
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
  std::vector<Assertion> assertions;
  std::string junit;
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
    (*calls)->Disconnect();
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
  return StayUntilInterrupted(node, {.name = "bench"});
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

// The file is made before anything is measured, and says how measuring failed if it does.
absl::Status WriteJunit(const std::string& file, const std::vector<AssertionResult>& assertions,
                        const absl::Status& status, double seconds) {
  if (file.empty()) return absl::OkStatus();
  errno = 0;
  std::ofstream out(file, std::ios::trunc);
  out << AssertionsJunit(assertions, status, seconds);
  out.close();
  if (out) return absl::OkStatus();
  // A stream need not say why it failed.
  return errno != 0 ? absl::ErrnoToStatus(errno, file)
                    : absl::DataLossError(absl::StrCat(file, ": cannot be written"));
}

absl::Status Failed(const std::vector<AssertionResult>& assertions) {
  std::vector<std::string> words;
  for (const AssertionResult& one : assertions) {
    if (!one.met()) words.push_back(one.Words());
  }
  if (words.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrJoin(words, "; "));
}

int Measure(const BenchOptions& options, const std::string& server) {
  const bool json = options.remote.json;
  std::vector<AssertionResult> assertions = Judge(options.assertions, {});
  const auto begun = std::chrono::steady_clock::now();
  absl::Status written =
      WriteJunit(options.junit, assertions, absl::UnavailableError("nothing was measured"), 0);
  if (!written.ok()) return Finish("bench", json, written, {}, "");
  PageFile page(options.html);
  if (!page.status().ok()) return Finish("bench", json, page.status(), {}, "");
  // Before the port takes CPUs of its own.
  const std::vector<int> cpus = UsableCpus();
  auto connected = Remote::Connect(options.remote, server, Cores::kMany);
  if (!connected.ok()) {
    written = WriteJunit(options.junit, assertions, connected.status(), 0);
    return Finish("bench", json, connected.status(), {}, "");
  }
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
  assertions = Judge(options.assertions, result);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  written = WriteJunit(options.junit, assertions, status, seconds);
  if (!assertions.empty()) out["assertions"] = AssertionsJson(assertions);
  if (status.ok()) status = Failed(assertions);
  status.Update(written);
  const std::string text = BenchText(options.plan, result);
  // Passes that came to their end are told, whatever ended those after them.
  if (!json && !status.ok() && complete_passes) status.Update(PrintOut(text));
  return Finish("bench", json, status, out, text);
}

// What a server would not look at.
absl::Status CheckServer(const Options& options) {
  constexpr absl::string_view kClients[] = {"measure", "sizes",   "pairs",  "passes",
                                            "count",   "seconds", "window", "rate",
                                            "mib",     "html",    "assert", "junit"};
  for (const auto& [name, value] : options.given()) {
    if (std::find(std::begin(kClients), std::end(kClients), name) == std::end(kClients)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, " is an option of the client; a server does not measure"));
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
      "(distributed over --cores), and small messages while large ones are sent. The latency of\n"
      "a SEND is a round trip: the server answers with a SEND. That of a WRITE or READ ends with\n"
      "its completion. All of this is repeated in several passes. The report has medians, lows\n"
      "and highs, and verdicts for ratios that have a target. Around each measurement the\n"
      "client measures the cost of passing a cache line between two of its cores; passes with\n"
      "near and with far cores are reported separately.");
  DeclareRemoteOptions(options, &bench.remote);
  options.Switch("server", "serve measurements until SIGINT or SIGTERM", &bench.server);
  options.Number("verbs-port", "the server's port for send, write, read, pairs and beside\n(18515)",
                 1, 65535, &bench.verbs_port);
  options.Parsed("measure", "LIST",
                 "parts to run, of null,blocks,send,write,read,pairs (SENDs on\n"
                 "several queue pairs),beside (small messages beside large\n"
                 "ones) (all); `pollux serve` supports null,blocks",
                 [&plan](const std::string& list) { return plan.SetWhat(list); });
  options.Parsed("sizes", "LIST",
                 "message sizes in bytes (2,64,1024,8192,65536,1048576);\nall: every power of two",
                 [&plan](const std::string& list) { return plan.SetSizes(list); });
  options.Parsed("pairs", "LIST",
                 "numbers of queue pairs for --measure pairs (1,4,16,64);\n"
                 "--measure beside uses the largest",
                 [&plan](const std::string& list) { return plan.SetPairs(list); });
  options.Number("passes",
                 "number of passes (5); figures are their medians. Verdicts do\n"
                 "not count if there are fewer than 5 passes",
                 1, 1000, &plan.passes);
  options.Number("count", "maximum operations per measurement (100000)", 1, 1'000'000'000,
                 &plan.count);
  options.Real("seconds",
               "maximum seconds per measurement; 0: no limit (0.2). In an\n"
               "open loop, operations that were due by then still run",
               0, 86'400, &plan.seconds);
  options.Number(
      "window", "maximum operations at once while rates are measured (128);\nat most 256 for verbs",
      1, LoadOptions::kMaxWindow, &window);
  options.Real("rate",
               "measure latencies in an open loop: this many operations\n"
               "per second become due, and wait while the window is full\n"
               "(0: one operation at a time)",
               0, 1e9, &plan.per_second);
  options.Number("mib", "MiB of blocks to write and to read per pass (32)", 1, 1 << 20, &plan.mib);
  options.Text("html", "FILE", "also write a page with distributions, curves and verdicts",
               &bench.html);
  options.Parsed("assert", "WHAT",
                 "exit status 1 unless this holds; repeatable. 'p99<20us': for\n"
                 "each operation measured; 'send/p99<20us';\n"
                 "'send/64/p99<20us' (quoted for the shell).\n"
                 "With <, <=, > or >= and p50, p99, p999, max (a time: ns,\n"
                 "us, ms, s), rate (operations per second: 250k, 1.5M) or\n"
                 "bandwidth (500MB/s, 1.2GB/s)",
                 [&bench](const std::string& text) {
                   absl::StatusOr<Assertion> one = Assertion::Parse(text);
                   if (!one.ok()) return one.status();
                   bench.assertions.push_back(*std::move(one));
                   return absl::OkStatus();
                 });
  options.Text("junit", "FILE", "also write the assertions as JUnit test cases", &bench.junit);
  auto operands = options.Parse(argc, argv, 0, 1);
  if (!operands.ok()) return Fail("bench", operands.status());
  if (options.help_asked()) return Finish("bench", false, absl::OkStatus(), {}, options.Help());
  if (bench.server == (operands->size() == 1)) {
    return Fail("bench",
                absl::InvalidArgumentError("give either ADDR (client) or --server; usage: pollux "
                                           "bench [options] ADDR | bench --server [options]"));
  }
  absl::Status checked = bench.server ? CheckServer(options) : plan.Check();
  for (const Assertion& one : bench.assertions) {
    if (!bench.server) checked.Update(one.CheckPlan(plan));
  }
  if (!bench.junit.empty() && bench.assertions.empty()) {
    checked.Update(absl::InvalidArgumentError("--junit needs at least one --assert"));
  }
  if (!checked.ok()) return Fail("bench", checked);
  plan.window = static_cast<uint32_t>(window);
  if (!bench.server) return Measure(bench, operands->front());
  CatchInterrupts();
  return Finish("bench", bench.remote.json, ServeMeasurements(bench), {}, "");
}

}  // namespace pollux::tools
