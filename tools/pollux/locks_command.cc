// pollux locks: what the clients of a running nfsd have of locks, and what of it is to be dropped.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "stack/base/address.h"
#include "tools/common/options.h"
#include "tools/common/report.h"
#include "tools/pollux/commands.h"
#include "tools/stat/client_locks.h"
#include "tools/stat/telemetry_client.h"

namespace pollux::tools {
namespace {

using Json = nlohmann::ordered_json;

struct LocksOptions {
  ProcessChoice choice;
  uint64_t pid = 0;  // 0: all
  std::optional<Gid> drop;
  bool json = false;
};

// Of one process that has some to tell of.
absl::StatusOr<Json> Gather(TelemetryClient& process, const Json& lines) {
  Json told = {
      {"pid", process.pid()}, {"file_prefix", process.file_prefix()}, {"locks", Json::array()}};
  for (const Json& line : lines) {
    if (!line.is_string()) continue;
    auto locks = ParseLocks(line.get<std::string>());
    if (!locks.ok()) return locks.status();
    told["locks"].push_back(*std::move(locks));
  }
  return told;
}

absl::Status Drop(TelemetryClient& process, const Gid& address) {
  const auto dropped = process.Ask(kDropLocksTopic, FormatAddress(address));
  if (!dropped.ok()) return dropped.status();
  if (!dropped->contains("clients")) {
    return absl::DataLossError(
        absl::StrCat("process ", process.pid(), " did not return the number of clients"));
  }
  std::fprintf(stderr, "process %u: released the locks of %u clients at %s\n",
               static_cast<unsigned>(process.pid()), (*dropped)["clients"].get<unsigned>(),
               FormatAddress(address).c_str());
  return absl::OkStatus();
}

absl::Status Locks(const LocksOptions& options) {
  auto processes = FindProcesses(options.choice);
  if (!processes.ok()) return processes.status();
  Json all = {{"processes", Json::array()}};
  for (const auto& process : processes->answering) {
    const auto lines = process->Ask(kLocksTopic);
    if (absl::IsNotFound(lines.status()) || (lines.ok() && lines->is_null())) continue;
    if (!lines.ok()) return lines.status();
    if (options.drop.has_value()) {
      if (absl::Status status = Drop(*process, *options.drop); !status.ok()) return status;
    }
    auto told = Gather(*process, *lines);
    if (!told.ok()) return told.status();
    all["processes"].push_back(*std::move(told));
  }
  if (all["processes"].empty()) return absl::NotFoundError("no pollux nfsd runs on this host");
  if (options.drop.has_value()) return absl::OkStatus();
  if (options.json) return PrintJson(all);
  std::string text;
  for (const Json& process : all["processes"]) {
    absl::StrAppend(&text, "process ", process["pid"].get<uint64_t>(), "\n",
                    LocksText(process["locks"]));
  }
  return PrintOut(text);
}

}  // namespace

int LocksCommand(int argc, char** argv) {
  LocksOptions locks;
  Options options("locks [options]",
                  "Prints the locks of NFS clients at each pollux nfsd on this host: files, byte\n"
                  "ranges, waiting requests and shares. A client that has died keeps its locks\n"
                  "until it restarts or --drop releases them.");
  options.Number("pid", "only this process", 1, UINT32_MAX, &locks.pid);
  options.Parsed("drop", "ADDRESS",
                 "release all locks of the clients at this address. They are not notified, so\n"
                 "use it only for clients that will not return",
                 [&locks](const std::string& text) {
                   absl::StatusOr<Gid> address = pollux::ParseAddress(text);
                   if (address.ok()) locks.drop = *address;
                   return address.status();
                 });
  options.Switch("json", "one JSON object on standard output instead of text", &locks.json);
  if (auto operands = options.Parse(argc, argv, 0, 0); !operands.ok()) {
    return Fail("locks", operands.status());
  }
  if (options.help_asked()) {
    std::printf("%s", options.Help().c_str());
    return kExitOk;
  }
  if (locks.pid != 0) locks.choice.pid = locks.pid;
  const absl::Status status = Locks(locks);
  return status.ok() ? kExitOk : Fail("locks", status);
}

}  // namespace pollux::tools
