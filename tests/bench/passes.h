// One pass of the benchmark over one wire, measurement by measurement.
#ifndef POLLUX_TESTS_BENCH_PASSES_H_
#define POLLUX_TESTS_BENCH_PASSES_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "stack/engine/polling/idle_option.h"
#include "tests/bench/figures.h"
#include "tests/bench/results.h"
#include "tests/bench/wires.h"

namespace pollux::bench {

// Message sizes of the throughput curve in bytes.
inline constexpr std::array<uint32_t, 8> kSizes = {64,    256,   1024,   4096,
                                                   16384, 65536, 262144, 1u << 20};
// Numbers of active connections. A pass measures each figure for all these numbers, without other
// measurements in between.
inline constexpr std::array<uint32_t, 3> kManyPairs = {1, 100, 10'000};
// Numbers of worker pairs, as far as there are cores; each pair has its own wire and two cores.
inline constexpr std::array<unsigned, 4> kWorkerPairs = {1, 2, 4, 8};
// Numbers of workers that share one port at each end, as far as there are cores.
inline constexpr std::array<unsigned, 4> kSharers = {1, 2, 4, 8};
// Rates of frame loss on the wire, in both directions.
inline constexpr std::array<double, 3> kLosses = {0.001, 0.01, 0.05};
inline constexpr struct {
  const char* name;
  engine::Idle idle;
} kIdles[] = {{"spin", engine::Idle::kSpin},
              {"yield", engine::Idle::kYield},
              {"sleep", engine::Idle::kSleep}};

// Names of figures that are used outside the pass, too.
inline constexpr char kRawByVeth[] = "64 B round trip by veth, raw";
inline constexpr char kWorkByVeth[] = "64 B round trip by veth, +work";
inline constexpr char kSendByVeth[] = "64 B round trip by veth, SEND";
inline constexpr char kSmallAlone[] = "1,000 small messages alone";
inline constexpr char kSmallBesideBulk[] = "1,000 small messages beside bulk";
inline constexpr char kBulkAlone[] = "WRITE 1 MiB, 1,000 connections idle";
inline constexpr char kBulkBesideSmall[] = "WRITE 1 MiB beside 1,000 small messages";
std::string SizeFigure(const std::string& operation, uint32_t bytes);
std::string PairsFigure(uint32_t count, uint32_t burst);
std::string LossFigure(double loss);
std::string LossRatio(double loss);  // relative to a wire without loss
std::string WorkersFigure(unsigned pairs, bool bulk);
std::string SharersFigure(unsigned workers, bool by_ring);

// The parts of a pass: "device, sizes, ...".
std::string PartNames();
// OK for "" and for a list of parts such as "rpc,tirpc"; otherwise InvalidArgument with the valid
// names.
absl::Status CheckParts(const std::string& parts);
// Whether a pass over this wire includes one of these parts; for "", any part.
bool HasPart(Wire wire, const std::string& parts);
struct PassOptions {
  double scale = 1;   // the length of each part
  std::string parts;  // the parts to run, as for CheckParts()
  // the program that measures other stacks (peers.py); "": these are reported as missing
  std::string peers;
};
// Runs one part after the other, and measures the cost of passing a cache line before and after
// each. Returns the first error of a wire or of a measurement.
absl::Status RunPass(Wire wire, const PassOptions& options, Figures& figures);

// Measures a pass over a wire; passes are counted from 1.
using OnePass = absl::FunctionRef<absl::Status(uint64_t pass, Wire wire, Figures& figures)>;
// Runs `passes` passes over each wire, in turn, until the first error. After an error, `results`
// contains the completed passes with their ratios.
absl::Status RunPasses(uint64_t passes, const std::vector<Wire>& wires, OnePass run,
                       Results& results);

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_PASSES_H_
