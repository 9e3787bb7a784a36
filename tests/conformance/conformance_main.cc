// Checks every RoCE frame of capture files. Exits 0 when all pass, 1 when a frame fails, a file
// cannot be read or there is no RoCE frame at all, 2 on wrong usage.
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "tests/conformance/report.h"

namespace {

constexpr const char* kUsage =
    "usage: conformance [--json] FILE...\n"
    "\n"
    "Checks every RoCE frame of capture files (pcap or pcapng, gzip or not): the ICRC is "
    "verified,\n"
    "the frame decoded and re-encoded byte for byte, CM MADs and RPC-over-RDMA headers too. "
    "Prints\n"
    "counts by opcode and MAD; exits 1 when a frame fails, and names it,\n"
    "or when there is none to check.\n"
    "\n"
    "  --json   one JSON object on standard output\n";

}  // namespace

int main(int argc, char** argv) {
  bool json = false;
  std::vector<std::string> paths;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--help") {
      std::fputs(kUsage, stdout);
      return 0;
    }
    if (argument == "--json") {
      json = true;
    } else if (argument.starts_with("--")) {
      std::fprintf(stderr, "conformance: unknown option %s; see --help\n", argv[i]);
      return 2;
    } else {
      paths.emplace_back(argument);
    }
  }
  if (paths.empty()) {
    std::fprintf(stderr, "conformance: no capture file given\n%s", kUsage);
    return 2;
  }
  std::vector<pollux::conformance::FileReport> reports;
  for (const std::string& path : paths) reports.push_back(pollux::conformance::CheckFile(path));
  const std::string text =
      json ? pollux::conformance::ToJson(reports) : pollux::conformance::ToTable(reports);
  std::fputs(text.c_str(), stdout);
  return pollux::conformance::AllPass(reports) ? 0 : 1;
}
