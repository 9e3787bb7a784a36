// pollux stat and pollux connections: what running processes tell of themselves.
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tools/common/interrupt.h"
#include "tools/common/options.h"
#include "tools/common/report.h"
#include "tools/pollux/commands.h"
#include "tools/stat/process_stat.h"
#include "tools/stat/stat_text.h"

namespace pollux::tools {
namespace {

using Json = nlohmann::ordered_json;

struct StatOptions {
  ProcessChoice choice;
  bool json = false;
  bool all = false;
  bool watch = false;
  bool recorders = false;
  uint64_t interval_s = 1;
};

void Declare(Options& options, StatOptions* stat) {
  options.Parsed("pid", "PID", "only this process", [stat](const std::string& text) {
    uint64_t pid = 0;
    if (!absl::SimpleAtoi(text, &pid) || pid == 0) {
      return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not a process ID"));
    }
    stat->choice.pid = pid;
    return absl::OkStatus();
  });
  options.Text("file-prefix", "NAME", "only processes of this name (pollux-PID)",
               &stat->choice.file_prefix);
  options.Switch("json", "one JSON object on standard output instead of text", &stat->json);
}

// {"processes": [...]}, each by `gather`. A process that ends in the midst is left out; of one that
// does not answer standard error tells.
template <class Gather>
absl::StatusOr<Json> All(const StatOptions& stat, Gather gather) {
  auto processes = FindProcesses(stat.choice);
  if (!processes.ok()) return processes.status();
  Json all = {{"processes", Json::array()}};
  absl::Status status;
  for (const SilentProcess& one : processes->silent) {
    std::fprintf(stderr, "%s\n", one.reason.c_str());
  }
  for (const auto& process : processes->answering) {
    absl::StatusOr<Json> one = gather(*process);
    if (absl::IsCancelled(one.status())) return one.status();
    status.Update(one.status());
    if (one.ok()) all["processes"].push_back(*std::move(one));
  }
  if (all["processes"].empty()) return status;
  return all;
}

std::string Watched(const StatOptions& stat, const Json& now, const Json& before) {
  std::string text;
  for (const Json& process : now["processes"]) {
    const Json* known = nullptr;
    if (before.is_object()) {
      for (const Json& one : before["processes"]) {
        if (one["pid"] == process["pid"]) known = &one;
      }
    }
    absl::StrAppend(&text, text.empty() ? "" : "\n", StatText(process, stat.all, known));
  }
  return text;
}

absl::Status Stat(const StatOptions& stat) {
  // A terminal shows each report in the place of the one before; a file has an empty line between.
  const bool is_screen = stat.watch && isatty(STDOUT_FILENO) != 0;
  const char* beginning = is_screen ? "\033[H\033[2J" : "";
  Json before;
  std::string error;  // why the last query failed
  for (bool is_first = true;; is_first = false) {
    absl::StatusOr<Json> now = All(stat, [](TelemetryClient& one) { return GatherStat(one); });
    if (!now.ok() && (is_first || absl::IsCancelled(now.status()))) return now.status();
    // With --watch the command continues: it must show a process that restarts or waits for a CPU.
    if (!now.ok() && now.status().message() != error) Fail("stat", now.status());
    error = std::string(now.status().message());
    absl::Status printed;
    if (stat.json) {
      printed = PrintJson(now.ok() ? *now : Json{{"processes", Json::array()}});
    } else if (now.ok()) {
      printed = PrintOut(absl::StrCat(beginning, Watched(stat, *now, before)));
      if (!is_screen) beginning = "\n";
    }
    if (!printed.ok() || !stat.watch) return printed;
    if (now.ok()) before = *std::move(now);
    SleepUntilInterrupted(static_cast<int>(stat.interval_s * 1000));
    if (Interrupted()) return absl::OkStatus();
  }
}

absl::Status Connections(const StatOptions& stat) {
  const absl::StatusOr<Json> all =
      All(stat, [&](TelemetryClient& one) { return GatherConnections(one, stat.recorders); });
  if (!all.ok()) return all.status();
  if (stat.json) return PrintJson(*all);
  std::string text;
  for (const Json& process : (*all)["processes"]) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", ConnectionsText(process));
  }
  return PrintOut(text);
}

template <class Run>
int Command(const char* name, Options& options, int argc, char** argv, Run run) {
  if (auto operands = options.Parse(argc, argv, 0, 0); !operands.ok()) {
    return Fail(name, operands.status());
  }
  if (options.help_asked()) {
    std::printf("%s", options.Help().c_str());
    return kExitOk;
  }
  CatchInterrupts(ClosedPipe::kEnds);
  const absl::Status status = run();
  return status.ok() || absl::IsCancelled(status) ? kExitOk : Fail(name, status);
}

}  // namespace

int StatCommand(int argc, char** argv) {
  StatOptions stat;
  Options options("stat [options]",
                  "Prints the counters of the pollux processes that run here: cores, ports, CM,\n"
                  "RPC-over-RDMA, memory, queue pairs.");
  Declare(options, &stat);
  options.Switch("all", "also counters at zero", &stat.all);
  options.Switch("watch",
                 "repeat, with the growth of each counter per second;\n"
                 "with --json one object per line. Continues if no\n"
                 "process answers any more",
                 &stat.watch);
  options.Number("interval", "seconds between two reports of --watch (1)", 1, 86'400,
                 &stat.interval_s);
  return Command("stat", options, argc, argv, [&] { return Stat(stat); });
}

int ConnectionsCommand(int argc, char** argv) {
  StatOptions stat;
  Options options("connections [options]",
                  "Prints the connections and listeners of the pollux processes that run here.");
  Declare(options, &stat);
  options.Switch("recorder", "also the last packets, timers and states of each queue pair",
                 &stat.recorders);
  return Command("connections", options, argc, argv, [&] { return Connections(stat); });
}

}  // namespace pollux::tools
