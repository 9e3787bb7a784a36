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

// Message sizes of the throughput's curve, bytes.
inline constexpr std::array<uint32_t, 8> kSizes = {64,    256,   1024,   4096,
                                                   16384, 65536, 262144, 1u << 20};
// Connections that are all active. A pass sends each figure over every number, one right after the
// other.
inline constexpr std::array<uint32_t, 3> kManyPairs = {1, 100, 10'000};
// Pairs of workers, each pair with a wire and two cores of its own, as far as there are cores.
inline constexpr std::array<unsigned, 4> kWorkerPairs = {1, 2, 4, 8};
// Workers that share one port at each end, as far as there are cores.
inline constexpr std::array<unsigned, 4> kSharers = {1, 2, 4, 8};
// Frames lost on the wire, either way.
inline constexpr std::array<double, 3> kLosses = {0.001, 0.01, 0.05};
inline constexpr struct {
  const char* name;
  engine::Idle idle;
} kIdles[] = {{"spin", engine::Idle::kSpin},
              {"yield", engine::Idle::kYield},
              {"sleep", engine::Idle::kSleep}};

// Names of figures that more than the pass has to know.
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
std::string LossRatio(double loss);  // to what a wire without loss carries
std::string WorkersFigure(unsigned pairs, bool bulk);
std::string SharersFigure(unsigned workers, bool by_ring);

// "device, sizes, ...": the parts of a pass.
std::string PartNames();
// OK for "" and a list of a pass's parts, as in "rpc,tirpc"; else InvalidArgument, with the names.
absl::Status CheckParts(const std::string& parts);
// Whether a pass over this wire has one of these parts, or for "" any.
bool HasPart(Wire wire, const std::string& parts);
struct PassOptions {
  double scale = 1;   // the length of each part
  std::string parts;  // of all, as CheckParts() has them
  std::string peers;  // the program that measures others (peers.py); "": they are told as missing
};
// One part after the other, with the cost of passing a cache line before and after each. The first
// error of a wire, or of what runs over it.
absl::Status RunPass(Wire wire, const PassOptions& options, Figures& figures);

// Measures a pass, counted from 1, over a wire.
using OnePass = absl::FunctionRef<absl::Status(uint64_t pass, Wire wire, Figures& figures)>;
// So many over each of the wires, by turns, until the first error: what then is in `results` are
// the passes that came to their end, with the ratios of each.
absl::Status RunPasses(uint64_t passes, const std::vector<Wire>& wires, OnePass run,
                       Results& results);

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_PASSES_H_
