// What perftest measures, by the native API: one figure over net_af_packet, to standard output.
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "stack/engine/device.h"
#include "stack/engine/eal.h"
#include "tests/bench/verbs_load.h"
#include "tools/options.h"

namespace pollux::bench {
namespace {

constexpr uint32_t kWindow = 128;  // as perftest's
constexpr uint32_t kMostBytes = 1u << 20;
constexpr uint32_t kAddresses[] = {0xC0000201, 0xC0000202};

struct Asked {
  std::string interfaces[2];
  ibv_wr_opcode opcode = IBV_WR_SEND;
  bool round_trip = false;
  uint32_t bytes = 0;
  uint64_t count = 0;
};

absl::StatusOr<Asked> ParseOperands(const std::vector<std::string>& operands) {
  Asked asked;
  asked.interfaces[0] = operands[0];
  asked.interfaces[1] = operands[1];
  const std::string& operation = operands[2];
  if (operation == "write") {
    asked.opcode = IBV_WR_RDMA_WRITE;
  } else if (operation == "read") {
    asked.opcode = IBV_WR_RDMA_READ;
  } else if (operation != "send") {
    return absl::InvalidArgumentError(operation + ": send, write or read");
  }
  asked.round_trip = operands[3] == "lat";
  if (!asked.round_trip && operands[3] != "bw") {
    return absl::InvalidArgumentError(operands[3] + ": lat or bw");
  }
  if (!absl::SimpleAtoi(operands[4], &asked.bytes) || asked.bytes == 0 ||
      asked.bytes > kMostBytes || !absl::SimpleAtoi(operands[5], &asked.count) ||
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
  std::unique_ptr<engine::Device> devices[2];
  for (int i = 0; i < 2; ++i) {
    engine::DeviceOptions options;
    options.port = absl::StrCat("net_af_packet", i, ",iface=", asked->interfaces[i]);
    options.addresses = {net::InterfaceAddress::Ipv4(kAddresses[i])};
    absl::StatusOr<std::unique_ptr<engine::Device>> device = engine::Device::Open(options);
    if (!device.ok()) return device.status();
    devices[i] = *std::move(device);
  }
  {
    const auto pair = VerbsPair::Connect(devices[0].get(), devices[1].get());
    if (!pair.ok()) return pair.status();
    std::printf("%.6g\n", Measure(**pair, *asked));
  }
  for (const auto& device : devices) device->Close();
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  tools::Options options(
      "native IFACE IFACE send|write|read lat|bw BYTES COUNT   (tests/bench/programs.py)",
      "One figure of the native API between the two ends of a veth: microseconds of a round\n"
      "trip, or bytes a second with 128 work requests under way.");
  const auto operands = options.Parse(argc, argv, 6, 6);
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
