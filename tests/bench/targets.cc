#include "tests/bench/targets.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "tests/bench/passes.h"

namespace pollux::bench {
namespace {

struct Target {
  const char* name;
  const char* above;  // figure / denominator
  const char* below;
  std::optional<double> limit;  // none: told for comparison
  bool at_most;                 // limit and aim, of times: smaller is better
  std::optional<double> aim;
  const char* provided = nullptr;  // one before it, without which it is not met,
  const char* unmet_by = "";       // and why
};
constexpr bool kAtLeast = false, kAtMost = true;

constexpr char kBulkShare[] = "1 MiB WRITE beside small messages / alone";

// From the project's targets: ratios within one run. Those with the programs of others have none.
constexpr Target kTargets[] = {
    {"64 B SEND stream / +work", "SEND 64 B stream", "+work 64 B stream", 0.5, kAtLeast, 0.65},
    {"64 B WRITE stream / +work", "WRITE 64 B stream", "+work 64 B stream", 0.5, kAtLeast, 0.65},
    {"1 MiB WRITE / +work", "WRITE 1 MiB", "+work bulk", 0.70, kAtLeast, 0.85},
    {"1 MiB READ / WRITE", "READ 1 MiB", "WRITE 1 MiB", 0.85, kAtLeast, 0.95},
    {"64 B SEND round trip / +work", "SEND 64 B round trip", "+work 64 B round trip", 1.7, kAtMost,
     1.4},
    {"10,000 connections / 1",
     "SEND 64 B, 10000 connections",
     "SEND 64 B, 1 connections",
     0.67,
     kAtLeast,
     {}},
    {"10,000 connections / 1, by 16",
     "SEND 64 B, 10000 connections, by 16",
     "SEND 64 B, 1 connections, by 16",
     0.67,
     kAtLeast,
     {}},
    {"NULL RPC rate / +work echo", "NULL RPC rate", "+work 64 B echo", 0.4, kAtLeast, 0.6},
    {"NULL RPC round trip / +work", "NULL RPC round trip", "+work 64 B round trip", 2.4, kAtMost,
     1.8},
    {"NULL RPC rate / least RPC", "NULL RPC rate", "+work, NULL call rate", {}, kAtLeast, {}},
    {"NULL RPC round trip / least RPC",
     "NULL RPC round trip",
     "+work, NULL call round trip",
     {},
     kAtMost,
     {}},
    {"0.1 % loss / none", "WRITE 1 MiB, 0.1 % loss", "WRITE 1 MiB, no loss", 0.8, kAtLeast, {}},
    {"1 % loss / none", "WRITE 1 MiB, 1 % loss", "WRITE 1 MiB, no loss", 0.4, kAtLeast, {}},
    {"5 % loss / none", "WRITE 1 MiB, 5 % loss", "WRITE 1 MiB, no loss", 0.1, kAtLeast, {}},
    {kBulkShare, kBulkBesideSmall, kBulkAlone, tools::kMinBulkShare, kAtLeast, {}},
    {"small messages beside bulk / alone, p99",
     "1,000 small messages beside bulk, p99",
     "1,000 small messages alone, p99",
     3.0,
     kAtMost,
     {},
     kBulkShare,
     tools::kBulkStarved},
    {"64 B SEND round trip by veth / +work", kSendByVeth, kWorkByVeth, 1.2, kAtMost, 1.1},
    {"TCP NULL, polling server / native", "libtirpc TCP, polling server, NULL",
     "NULL RPC round trip", 20, kAtLeast, 30},
    {"TCP read 1 MiB, polling server / native", "libtirpc TCP, polling server, read 1 MiB",
     "RPC read 1 MiB round trip", 2.5, kAtLeast, 4},
    {"native NULL / TCP", "NULL RPC round trip", "libtirpc TCP NULL", 1.0, kAtMost, {}},
    {"native read 4 KiB / TCP",
     "RPC read 4 KiB round trip",
     "libtirpc TCP read 4 KiB",
     1.0,
     kAtMost,
     {}},
    {"native write 4 KiB / TCP",
     "RPC write 4 KiB round trip",
     "libtirpc TCP write 4 KiB",
     1.0,
     kAtMost,
     {}},
    {"native read 1 MiB / TCP",
     "RPC read 1 MiB round trip",
     "libtirpc TCP read 1 MiB",
     1.0,
     kAtMost,
     {}},
    {"native write 1 MiB / TCP",
     "RPC write 1 MiB round trip",
     "libtirpc TCP write 1 MiB",
     1.0,
     kAtMost,
     {}},
    {"native NULL / TCP by veth",
     "NULL RPC round trip",
     "libtirpc TCP by veth NULL",
     1.0,
     kAtMost,
     {}},
    {"native read 4 KiB / TCP by veth",
     "RPC read 4 KiB round trip",
     "libtirpc TCP by veth read 4 KiB",
     1.0,
     kAtMost,
     {}},
    {"native write 4 KiB / TCP by veth",
     "RPC write 4 KiB round trip",
     "libtirpc TCP by veth write 4 KiB",
     1.0,
     kAtMost,
     {}},
    {"native read 1 MiB / TCP by veth",
     "RPC read 1 MiB round trip",
     "libtirpc TCP by veth read 1 MiB",
     1.0,
     kAtMost,
     {}},
    {"native write 1 MiB / TCP by veth",
     "RPC write 1 MiB round trip",
     "libtirpc TCP by veth write 1 MiB",
     1.0,
     kAtMost,
     {}},
    {"libtirpc NULL / TCP", "libtirpc NULL", "libtirpc TCP NULL", 1.0, kAtMost, {}},
    {"libtirpc read 4 KiB / TCP",
     "libtirpc read 4 KiB",
     "libtirpc TCP read 4 KiB",
     1.0,
     kAtMost,
     {}},
    {"libtirpc write 4 KiB / TCP",
     "libtirpc write 4 KiB",
     "libtirpc TCP write 4 KiB",
     1.0,
     kAtMost,
     {}},
    {"libtirpc read 1 MiB / TCP",
     "libtirpc read 1 MiB",
     "libtirpc TCP read 1 MiB",
     1.0,
     kAtMost,
     {}},
    {"libtirpc write 1 MiB / TCP",
     "libtirpc write 1 MiB",
     "libtirpc TCP write 1 MiB",
     1.0,
     kAtMost,
     {}},
    {"libtirpc NULL / TCP by veth", "libtirpc NULL", "libtirpc TCP by veth NULL", 1.0, kAtMost, {}},
    {"libtirpc read 4 KiB / TCP by veth",
     "libtirpc read 4 KiB",
     "libtirpc TCP by veth read 4 KiB",
     1.0,
     kAtMost,
     {}},
    {"libtirpc write 4 KiB / TCP by veth",
     "libtirpc write 4 KiB",
     "libtirpc TCP by veth write 4 KiB",
     1.0,
     kAtMost,
     {}},
    {"libtirpc read 1 MiB / TCP by veth",
     "libtirpc read 1 MiB",
     "libtirpc TCP by veth read 1 MiB",
     1.0,
     kAtMost,
     {}},
    {"libtirpc write 1 MiB / TCP by veth",
     "libtirpc write 1 MiB",
     "libtirpc TCP by veth write 1 MiB",
     1.0,
     kAtMost,
     {}},
    {"64 B SEND round trip / UCX tcp",
     "SEND 64 B round trip",
     "UCX tcp 64 B round trip",
     {},
     kAtMost,
     {}},
    {"64 B SEND round trip / UCX posix",
     "SEND 64 B round trip",
     "UCX posix 64 B round trip",
     {},
     kAtMost,
     {}},
    {"64 B SEND round trip / qperf TCP by veth",
     "SEND 64 B round trip",
     "qperf TCP by veth 64 B round trip",
     {},
     kAtMost,
     {}},
    {"64 B SEND round trip / sockperf TCP by veth",
     "SEND 64 B round trip",
     "sockperf TCP by veth 64 B round trip",
     {},
     kAtMost,
     {}},
    {"64 B SEND stream / UCX tcp", "SEND 64 B stream", "UCX tcp 64 B stream", {}, kAtLeast, {}},
    {"64 B SEND stream / UCX posix", "SEND 64 B stream", "UCX posix 64 B stream", {}, kAtLeast, {}},
    {"64 B SEND stream / qperf TCP by veth, batched",
     "SEND 64 B stream",
     "qperf TCP by veth 64 B stream, batched",
     {},
     kAtLeast,
     {}},
    {"1 MiB WRITE / UCX tcp", "WRITE 1 MiB", "UCX tcp 1 MiB", {}, kAtLeast, {}},
    {"1 MiB WRITE / UCX posix", "WRITE 1 MiB", "UCX posix 1 MiB", {}, kAtLeast, {}},
    {"1 MiB WRITE / qperf TCP by veth", "WRITE 1 MiB", "qperf TCP by veth 1 MiB", {}, kAtLeast, {}},
};

}  // namespace

void RecordRatios(Figures& pass) {
  for (const Target& target : kTargets) {
    const auto above = pass.series.find(target.above), below = pass.series.find(target.below);
    if (above == pass.series.end() || below == pass.series.end()) continue;
    const Series of_pass = tools::Ratios(above->second, below->second);
    pass.ratios[target.name].values.push_back(of_pass.Median());
  }
}

const tools::Verdict* Find(const std::vector<tools::Verdict>& verdicts, const std::string& name) {
  const auto found = std::find_if(verdicts.begin(), verdicts.end(),
                                  [&](const tools::Verdict& one) { return one.name == name; });
  return found == verdicts.end() ? nullptr : &*found;
}

std::vector<tools::Verdict> Verdicts(const Figures& figures) {
  std::vector<tools::Verdict> verdicts;
  for (const Target& target : kTargets) {
    const auto ratios = figures.ratios.find(target.name);
    if (ratios == figures.ratios.end()) continue;
    tools::Verdict verdict{.name = target.name,
                           .ratios = ratios->second,
                           .target = target.limit,
                           .at_most = target.at_most,
                           .aim = target.aim};
    if (target.provided != nullptr) {
      const tools::Verdict* provided = Find(verdicts, target.provided);
      if (provided == nullptr || !provided->met()) verdict.unmet_by = target.unmet_by;
    }
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

}  // namespace pollux::bench
