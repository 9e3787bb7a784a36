// Runs of `pollux bench` against a server: which measurements, and what came of them, pass by pass.
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
  // In the order of measuring, each once, of these: null (NULL RPCs), blocks (1 MiB by RPC), send,
  // write, read (verbs, in each size), pairs (SENDs on several queue pairs), beside (small messages
  // without and with bulk beside them).
  std::vector<std::string> what = {"null", "blocks", "send", "write", "read", "pairs", "beside"};
  std::vector<uint32_t> sizes = {2, 64, 1024, 8192, 65536, 1u << 20};  // of verbs, bytes
  std::vector<uint32_t> pairs = {1, 4, 16, 64};  // queue pairs, in rising order
  uint64_t passes = kMinPasses;
  uint64_t count = 100'000;  // operations of a measurement, at most
  double seconds = 0.2;      // and its length, at most; 0: no limit. Not of blocks
  uint32_t window = 128;     // operations under way when a rate is measured, at most
  double per_second = 0;     // open loop for latencies; 0: one at a time
  uint64_t mib = 32;         // blocks each way

  bool verbs() const;
  // InvalidArgument for a list with something else in it, or nothing.
  absl::Status SetWhat(const std::string& list);
  // Numbers of bytes from 1 to kBenchMaxBytes, or "all": the powers of two from 2 on.
  absl::Status SetSizes(const std::string& list);
  // Numbers from 1 to kBenchMaxPairs.
  absl::Status SetPairs(const std::string& list);
  // InvalidArgument for an open loop of measurements that have none.
  absl::Status Check() const;
};

// Of small messages when queue pairs are counted, and beside bulk.
inline constexpr uint32_t kSmallBytes = 64;
inline constexpr uint32_t kBulkBytes = 1u << 20;

// "1 queue pair", "4 queue pairs".
std::string QueuePairs(uint32_t count);

// One load of one operation, pass by pass.
struct LoadSeries {
  uint64_t operations = 0;  // of all passes, and so is the histogram
  Series per_second, median_us, p99_us;
  std::unique_ptr<Histogram> latency_ns = std::make_unique<Histogram>();

  void Add(const LoadResult& of_pass);
  // The passes of another after these.
  void Add(const LoadSeries& more);
};

// One operation in one size.
struct BenchRow {
  std::string operation;
  std::optional<uint32_t> bytes;  // none of a NULL call
  uint32_t window = 1;            // of the rate
  LoadSeries latency;             // one at a time, or in an open loop
  LoadSeries rate;                // as many at once as the window allows
  Series core_to_core_ns;         // before, between and after
};

// 64 B SENDs on several queue pairs, of several of the client's cores, at once.
struct PairsRow {
  uint32_t queue_pairs = 1;
  uint32_t cores = 1;
  Series per_second;  // of all together
  Series core_to_core_ns;
};

// Passes during which the machine's cores were alike far apart: medians of others are none.
struct BenchRun {
  CoreDistance distance = CoreDistance::kUnmeasured;
  size_t passes = 0;
  std::vector<BenchRow> rows;
  std::vector<PairsRow> pairs;
  uint32_t small_pairs = 0;            // queue pairs with small messages, of these two
  LoadSeries alone, beside;            // their round trips without and with bulk on another
  LoadSeries bulk_alone, bulk_beside;  // 1 MiB WRITEs on that one, without and with them
  Series write_blocks, read_blocks;    // bytes per second
  Series core_to_core_ns;  // of this machine, around each measurement, while no port was polled

  const BenchRow* Find(const std::string& operation, std::optional<uint32_t> bytes) const;
  void Add(BenchRun pass);
};

struct BenchResult {
  absl::Status status;         // of the first measurement that failed: the last
  std::vector<BenchRun> runs;  // that with the most passes first
};

// Told before each measurement: its name, and how many of all are done.
using BenchProgress = std::function<void(const std::string& what, uint64_t done, uint64_t total)>;

// From the main thread; measurements run on the node's cores, and the cost from core to core is
// measured on `cpus` while they stand still. An interrupt ends it with Cancelled. Connects to
// `verbs` when the plan wants verbs, before anything is measured.
BenchResult RunBench(Node& node, FileClient& client, const SocketAddress& verbs,
                     const BenchPlan& plan, const std::vector<int>& cpus,
                     const BenchProgress& progress);

// What the figures of a run are held against, as far as they were measured.
std::vector<Verdict> BenchVerdicts(const BenchRun& run);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_BENCH_RUN_H_
