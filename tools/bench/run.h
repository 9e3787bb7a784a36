// Runs of `pollux bench` against a server: the plan of measurements, and their results pass by
// pass.
#ifndef POLLUX_TOOLS_BENCH_RUN_H_
#define POLLUX_TOOLS_BENCH_RUN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cm/manager.h"
#include "tools/bench/core_to_core.h"
#include "tools/bench/series.h"
#include "tools/bench/verdict.h"
#include "tools/common/histogram.h"
#include "tools/common/load.h"
#include "tools/common/node.h"
#include "tools/file_service/file_client.h"

namespace pollux::tools {

struct BenchPlan {
  // The measurements in order, each at most once: null (NULL RPCs), blocks (1 MiB by RPC), send,
  // write, read (verbs, in each size), pairs (SENDs on several queue pairs), beside (small messages
  // without and with bulk beside them).
  std::vector<std::string> what = {"null", "blocks", "send", "write", "read", "pairs", "beside"};
  std::vector<uint32_t> sizes = {2, 64, 1024, 8192, 65536, 1u << 20};  // for verbs, in bytes
  std::vector<uint32_t> pairs = {1, 4, 16, 64};  // queue pairs, in rising order
  uint64_t passes = kMinPasses;
  uint64_t count = 100'000;  // maximum operations of a measurement
  double seconds = 0.2;      // its maximum length; 0: no limit. Not for blocks
  uint32_t window = 128;     // maximum outstanding operations when a rate is measured
  double per_second = 0;     // open loop for latencies: operations per second; 0: one at a time
  uint64_t mib = 32;         // MiB of blocks in each direction

  bool verbs() const;
  // InvalidArgument for an empty list and for unknown measurements.
  absl::Status SetWhat(const std::string& list);
  // Numbers of bytes from 1 to kBenchMaxBytes, or "all": the powers of two from 2 on.
  absl::Status SetSizes(const std::string& list);
  // Numbers from 1 to kBenchMaxPairs.
  absl::Status SetPairs(const std::string& list);
  // InvalidArgument for an open loop with measurements that do not support it.
  absl::Status Check() const;
};

// The message size when several queue pairs are measured, and of the small messages beside bulk.
inline constexpr uint32_t kSmallBytes = 64;
inline constexpr uint32_t kBulkBytes = 1u << 20;

// "1 queue pair", "4 queue pairs".
std::string QueuePairs(uint32_t count);

// One load of one operation, pass by pass.
struct LoadSeries {
  uint64_t operations = 0;  // of all passes, as in the histogram
  Series per_second, median_us, p99_us;
  std::unique_ptr<Histogram> latency_ns = std::make_unique<Histogram>();

  void Add(const LoadResult& of_pass);
  // Appends the passes of another series.
  void Add(const LoadSeries& more);
};

// One operation in one size.
struct BenchRow {
  std::string operation;
  std::optional<uint32_t> bytes;  // nothing for a NULL call
  uint32_t window = 1;            // for the rate
  LoadSeries latency;             // measured one at a time, or in an open loop
  LoadSeries rate;                // measured with as many outstanding as the window allows
  Series core_to_core_ns;         // before, between and after
};

// 64 B SENDs on several queue pairs at once, from several of the client's cores.
struct PairsRow {
  uint32_t queue_pairs = 1;
  uint32_t cores = 1;
  Series per_second;  // all queue pairs together
  Series core_to_core_ns;
};

// The passes with the same core distance; a median over different distances would be meaningless.
struct BenchRun {
  CoreDistance distance = CoreDistance::kUnmeasured;
  size_t passes = 0;
  std::vector<BenchRow> rows;
  std::vector<PairsRow> pairs;
  uint32_t small_pairs = 0;  // number of queue pairs with small messages, in the two members below
  LoadSeries alone, beside;  // their round trips, without and with bulk on another queue pair
  // the 1 MiB WRITEs of that queue pair, without and with the small messages
  LoadSeries bulk_alone, bulk_beside;
  Series write_blocks, read_blocks;  // bytes per second
  // on this machine, before and after each measurement, while no port is polled
  Series core_to_core_ns;

  const BenchRow* Find(const std::string& operation, std::optional<uint32_t> bytes) const;
  void Add(BenchRun pass);
};

struct BenchResult {
  absl::Status status;  // the error of the measurement that failed, after which the run ended
  std::vector<BenchRun> runs;  // the one with the most passes first
};

// Called before each measurement with its name, the number of finished measurements and their total
// number.
using BenchProgress = std::function<void(const std::string& what, uint64_t done, uint64_t total)>;

// Call it on the main thread. Measurements run on the node's cores; in between, the core-to-core
// time is measured on `cpus`. An interrupt ends the run with Cancelled. If the plan includes verbs,
// connects to `verbs` before the first measurement.
BenchResult RunBench(Node& node, FileClient& client, const SocketAddress& verbs,
                     const BenchPlan& plan, const std::vector<int>& cpus,
                     const BenchProgress& progress);

// The comparisons of a run's figures with their targets, as far as they were measured.
std::vector<Verdict> BenchVerdicts(const BenchRun& run);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_BENCH_RUN_H_
