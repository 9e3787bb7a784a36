#include "tests/bench/tail.h"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "stack/engine/polling/clock.h"
#include "tests/bench/core_pair.h"
#include "tests/bench/rpc_pair.h"
#include "tests/bench/wires.h"
#include "tools/file_service/transfer.h"

namespace pollux::bench {
namespace {

constexpr double kSliceSeconds = 5;  // after which calls and the clock take turns
constexpr struct {
  const char* name;
  double fraction;
} kPercentiles[] = {{"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999}, {"p99.99", 0.9999}, {"max", 1}};
constexpr uint64_t kLongerThanNs[] = {5'000,   10'000,    20'000,    50'000,    100'000,
                                      500'000, 1'000'000, 2'000'000, 5'000'000, 10'000'000};

// Returns how often it was read.
uint64_t ReadTheClock(double seconds, tools::Histogram& stalls_ns) {
  const auto one = [seconds](tools::Histogram& gaps_ns) {
    const engine::Clock clock;
    uint64_t reads = 0;
    uint64_t last_ns = clock.NowNs();
    const uint64_t end_ns = last_ns + static_cast<uint64_t>(seconds * 1e9);
    while (last_ns < end_ns) {
      const uint64_t now_ns = clock.NowNs();
      if (now_ns - last_ns >= Tail::kMinStallNs) gaps_ns.Record(now_ns - last_ns);
      last_ns = now_ns;
      ++reads;
    }
    return reads;
  };
  const auto a_ns = std::make_unique<tools::Histogram>(),
             b_ns = std::make_unique<tools::Histogram>();
  uint64_t a_reads = 0, b_reads = 0;
  RunOnTwoCores([&] { a_reads = one(*a_ns); }, [&] { b_reads = one(*b_ns); });
  stalls_ns.Add(*a_ns);
  stalls_ns.Add(*b_ns);
  return a_reads + b_reads;
}

absl::Status MakeCalls(double seconds, tools::Histogram& calls_ns) {
  absl::StatusOr<engine::Device::Pair> opened = OpenWire(Wire::kRing);
  if (!opened.ok()) return opened.status();
  absl::StatusOr<std::unique_ptr<RpcPair>> started = RpcPair::Start(*std::move(opened));
  if (!started.ok()) return started.status();
  for (const bool counts : {false, true}) {  // the first calls fill caches
    const tools::LoadOptions load{
        .count = UINT64_MAX, .limit_ns = static_cast<uint64_t>(seconds * (counts ? 1e9 : 1e8))};
    const auto calls = TimeNullCalls((*started)->node(), (*started)->client(), load, nullptr);
    if (!calls.status.ok()) return calls.status;
    if (counts) calls_ns.Add(*calls.latency_ns);
  }
  return absl::OkStatus();
}

uint64_t CountAbove(const tools::Histogram& histogram, uint64_t ns) {
  uint64_t count = 0;
  histogram.ForEach([&](uint64_t bound, uint64_t in_bucket) {
    if (bound > ns) count += in_bucket;
  });
  return count;
}

}  // namespace

absl::StatusOr<Tail> MeasureTail(double seconds) {
  Tail tail;
  while (tail.seconds < seconds) {
    const double slice = std::min(kSliceSeconds, seconds - tail.seconds);
    std::fprintf(stderr, "round trips and stalls, %.0f of %.0f s\n", tail.seconds, seconds);
    tail.clock_reads += ReadTheClock(slice, *tail.stalls_ns);
    if (absl::Status status = MakeCalls(slice, *tail.calls_ns); !status.ok()) return status;
    tail.seconds += slice;
  }
  return tail;
}

uint64_t PercentileWithoutStalls(const Tail& tail, double fraction) {
  std::vector<std::pair<uint64_t, uint64_t>> buckets;
  tail.calls_ns->ForEach(
      [&](uint64_t bound, uint64_t count) { buckets.emplace_back(bound, count); });
  const auto may_exceed =
      static_cast<uint64_t>((1 - fraction) * static_cast<double>(tail.calls_ns->count()) + 1e-6);
  const uint64_t usual_ns = tail.calls_ns->Percentile(0.5);
  uint64_t longer = 0;
  for (auto bucket = buckets.rbegin(); bucket != buckets.rend(); ++bucket) {
    longer += bucket->second;
    const uint64_t shortest_ns = bucket->first - bucket->first / 64;
    const uint64_t stall_ns = shortest_ns > usual_ns ? shortest_ns - usual_ns : 0;
    if (longer > may_exceed + CountAbove(*tail.stalls_ns, stall_ns)) return bucket->first;
  }
  return buckets.empty() ? 0 : buckets.front().first;
}

std::string TailText(const Tail& tail) {
  const auto us = [](uint64_t ns) { return static_cast<double>(ns) * 1e-3; };
  std::string text = absl::StrFormat(
      "NULL calls, one at a time, net_ring: %u in %.0f s\n\n%-10s%16s%28s\n",
      tail.calls_ns->count(), tail.seconds, "", "round trip", "less the machine's stalls");
  for (const auto& [name, fraction] : kPercentiles) {
    absl::StrAppendFormat(&text, "%-10s%13.2f us%25.2f us\n", name,
                          us(tail.calls_ns->Percentile(fraction)),
                          us(PercentileWithoutStalls(tail, fraction)));
  }
  absl::StrAppendFormat(&text, "longest stall of a CPU%29.2f us\n\n%-16s%16s%20s\n",
                        us(tail.stalls_ns->max()), "longer than", "calls a second",
                        "stalls a second");
  for (const uint64_t ns : kLongerThanNs) {
    absl::StrAppendFormat(&text, "%13.0f us%16.2f%20.2f\n", us(ns),
                          static_cast<double>(CountAbove(*tail.calls_ns, ns)) / tail.seconds,
                          static_cast<double>(CountAbove(*tail.stalls_ns, ns)) / tail.seconds);
  }
  return text;
}

nlohmann::ordered_json TailJson(const Tail& tail) {
  nlohmann::ordered_json json;
  json["seconds"] = tail.seconds;
  json["calls"] = tail.calls_ns->count();
  for (const auto& [name, fraction] : kPercentiles) {
    json["round_trip_ns"][name] = tail.calls_ns->Percentile(fraction);
    json["without_stalls_ns"][name] = PercentileWithoutStalls(tail, fraction);
  }
  json["longest_stall_ns"] = tail.stalls_ns->max();
  for (const uint64_t ns : kLongerThanNs) {
    json["longer_than"].push_back(
        {{"ns", ns},
         {"calls_per_second", static_cast<double>(CountAbove(*tail.calls_ns, ns)) / tail.seconds},
         {"stalls_per_second",
          static_cast<double>(CountAbove(*tail.stalls_ns, ns)) / tail.seconds}});
  }
  return json;
}

}  // namespace pollux::bench
