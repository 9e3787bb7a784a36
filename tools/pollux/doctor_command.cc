// pollux doctor: what this host lacks for a port.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/common/options.h"
#include "tools/common/report.h"
#include "tools/doctor/dpdk_version.h"
#include "tools/doctor/examination.h"
#include "tools/pollux/commands.h"
#include "tools/stat/stat_text.h"

namespace pollux::tools {
namespace {

using Json = nlohmann::ordered_json;

Json FindingsJson(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& one : findings) {
    list.push_back({{"name", one.name},
                    {"state", one.state()},
                    {"needed", one.needed},
                    {"found", one.found},
                    {"wanted", one.wanted},
                    {"command", one.command}});
  }
  return list;
}

std::string FindingsText(const std::vector<Finding>& findings) {
  std::vector<std::vector<std::string>> rows;
  for (const Finding& one : findings) {
    rows.push_back(
        {one.lacking() ? "LACKING" : one.state(), one.name, one.found, one.wanted, one.command});
  }
  return Columns({"state", "what", "found", "wanted", "command"}, rows);
}

}  // namespace

int DoctorCommand(int argc, char** argv) {
  std::string netdev, devargs;
  uint64_t memory_mib = 128;
  bool json = false;
  Options options(
      "doctor [options]",
      "Shows what this host lacks for a port, and the command that fixes it. Changes nothing.\n"
      "State: ok; LACKING, without which the port does not work; advice. Without --netdev\n"
      "or --port every finding is advice. Exit status: 0 if nothing is lacking, 1 if\n"
      "something is, 2 for a wrong option.");
  options.Text("netdev", "IFACE", "the interface to be shared with the kernel", &netdev);
  options.Text("port", "DEVARGS", "or the port, as in other commands; it may be in use", &devargs);
  options.Number(
      "memory",
      "memory of the command, in MiB: its --memory, or 64 plus 16\nper core, at least 128 (128)",
      64, 1048576, &memory_mib);
  options.Switch("json", "one JSON object on standard output instead of text", &json);
  std::vector<std::string> operands;
  if (auto done = ParseOperands("doctor", options, argc, argv, 0, 0, &operands)) return *done;
  const absl::StatusOr<PortChoice> port = ChoosePort(netdev, devargs);
  if (!port.ok()) return Finish("doctor", json, port.status(), {}, "");
  const std::vector<Finding> findings =
      Examine({.root = "", .dpdk_version = DpdkVersion()}, *port, memory_mib);
  std::vector<std::string> lacking;
  for (const Finding& one : findings) {
    if (one.lacking()) lacking.push_back(one.name);
  }
  absl::Status status;
  if (!json) status = PrintOut(FindingsText(findings));
  if (!lacking.empty()) {
    status.Update(absl::FailedPreconditionError(absl::StrCat(
        netdev.empty() ? devargs : netdev, ": not ready: ", absl::StrJoin(lacking, ", "))));
  }
  return Finish("doctor", json, status, {{"findings", FindingsJson(findings)}}, "");
}

}  // namespace pollux::tools
