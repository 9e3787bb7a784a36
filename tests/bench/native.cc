// What perftest measures, by the native API: one figure over net_memif, to standard output.
#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "stack/engine/eal.h"
#include "tests/bench/verbs_load.h"
#include "tests/bench/wires.h"
#include "tools/options.h"

namespace pollux::bench {
namespace {

constexpr uint32_t kWindow = 128;  // as perftest's
constexpr uint32_t kMostBytes = 1u << 20;

struct Asked {
  ibv_wr_opcode opcode = IBV_WR_SEND;
  bool round_trip = false;
  uint32_t bytes = 0;
  uint64_t count = 0;
};

absl::StatusOr<Asked> ParseOperands(const std::vector<std::string>& operands) {
  Asked asked;
  const std::string& operation = operands[0];
  if (operation == "write") {
    asked.opcode = IBV_WR_RDMA_WRITE;
  } else if (operation == "read") {
    asked.opcode = IBV_WR_RDMA_READ;
  } else if (operation != "send") {
    return absl::InvalidArgumentError(operation + ": send, write or read");
  }
  asked.round_trip = operands[1] == "lat";
  if (!asked.round_trip && operands[1] != "bw") {
    return absl::InvalidArgumentError(operands[1] + ": lat or bw");
  }
  if (!absl::SimpleAtoi(operands[2], &asked.bytes) || asked.bytes == 0 ||
      asked.bytes > kMostBytes || !absl::SimpleAtoi(operands[3], &asked.count) ||
      asked.count == 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("BYTES are 1 to %u, COUNT at least 1", kMostBytes));
  }
  return asked;
}

// Microseconds of a round trip, or bytes a second.
double Measure(VerbsPair& pair, const Asked& asked) {
  if (!asked.round_trip) {
    return pair.PerSecond(asked.opcode, asked.bytes, asked.count, kWindow) * asked.bytes;
  }
  switch (asked.opcode) {
    case IBV_WR_SEND:
      return pair.SendRoundTripNs(asked.bytes, asked.count) * 1e-3;
    case IBV_WR_RDMA_WRITE:
      return pair.WriteRoundTripNs(asked.bytes, asked.count) * 1e-3;
    default:
      return 1e6 / pair.PerSecond(asked.opcode, asked.bytes, asked.count, 1);
  }
}

absl::Status Run(const std::vector<std::string>& operands) {
  const absl::StatusOr<Asked> asked = ParseOperands(operands);
  if (!asked.ok()) return asked.status();
  if (absl::Status status = engine::InitEal({.memory_mib = 512}); !status.ok()) return status;
  absl::StatusOr<engine::Device::Pair> wire = OpenWire(Wire::kMemif);
  if (!wire.ok()) return wire.status();
  {
    const auto pair = VerbsPair::Connect(wire->first.get(), wire->second.get());
    if (!pair.ok()) return pair.status();
    std::printf("%.6g\n", Measure(**pair, *asked));
  }
  CloseWire(*wire);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  tools::Options options("native send|write|read lat|bw BYTES COUNT   (tests/bench/programs.py)",
                         "One figure of the native API over net_memif: microseconds of a round\n"
                         "trip, or bytes a second with 128 work requests under way.");
  const auto operands = options.Parse(argc, argv, 4, 4);
  if (options.help_asked()) {
    std::printf("%s", options.Help().c_str());
    return tools::kExitOk;
  }
  const absl::Status status = operands.ok() ? Run(*operands) : operands.status();
  if (status.ok()) return tools::kExitOk;
  std::fprintf(stderr, "native: %s\n", std::string(status.message()).c_str());
  return absl::IsInvalidArgument(status) ? tools::kExitUsage : tools::kExitFailure;
}

}  // namespace
}  // namespace pollux::bench

int main(int argc, char** argv) { return pollux::bench::Main(argc, argv); }
