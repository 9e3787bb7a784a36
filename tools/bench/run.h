// A run of `pollux bench` against a server: which measurements, and what came of them.
#ifndef POLLUX_TOOLS_BENCH_RUN_H_
#define POLLUX_TOOLS_BENCH_RUN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cm/manager.h"
#include "tools/bench/load.h"
#include "tools/bench/verbs_client.h"
#include "tools/file_service/file_client.h"
#include "tools/node.h"
#include "tools/progress.h"
#include "tools/transfer.h"

namespace pollux::tools {

struct BenchPlan {
  // In the order of measuring, of these: null (NULL RPCs), blocks (1 MiB by RPC), send, write, read
  // (verbs).
  std::vector<std::string> what = {"null", "blocks", "send", "write", "read"};
  std::vector<uint32_t> sizes = {2, 64, 1024, 8192, 65536, 1u << 20};  // of verbs, bytes
  uint64_t count = 100'000;  // operations of a measurement, at most
  double seconds = 2;        // and its length, at most; 0: no limit. Not of blocks
  uint32_t window = 128;     // operations under way when a rate is measured, at most
  double per_second = 0;     // open loop for latencies; 0: one at a time
  uint64_t mib = 256;        // blocks each way

  bool verbs() const;
  // InvalidArgument for a list with something else in it, or nothing.
  absl::Status SetWhat(const std::string& list);
  // Numbers of bytes from 1 to kBenchMaxBytes, or "all": the powers of two from 2 on.
  absl::Status SetSizes(const std::string& list);
};

// One operation in one size.
struct BenchRow {
  std::string operation;
  std::optional<uint32_t> bytes;  // none of a NULL call
  LoadResult latency;             // one at a time, or in an open loop
  LoadResult rate;                // as many at once as the window allows
  uint32_t window = 1;            // of the rate
};

struct BenchRun {
  absl::Status status;  // of the first measurement that failed: the last
  std::vector<BenchRow> rows;
  std::optional<BlocksResult> write_blocks, read_blocks;
  // Of this machine, while its port was not polled; nothing where there is but one core.
  std::optional<double> core_to_core_before_ns, core_to_core_after_ns;
};

// The bar of a measurement, by its name.
using BenchProgress = std::function<Progress(const std::string& what, bool as_bytes)>;

// From the main thread; measurements run on the node's core. An interrupt ends it with Cancelled.
// Connects to `verbs` when the plan wants verbs, before anything is measured.
BenchRun RunBench(Node& node, FileClient& client, const cm::Endpoint& verbs, const BenchPlan& plan,
                  const BenchProgress& progress);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_BENCH_RUN_H_
