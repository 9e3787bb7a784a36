// What the ICRC of a packet costs by each kernel, and which of them packets of each length get.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <vector>

#include "stack/wire/icrc.h"

namespace pollux::bench {
namespace {

using wire::CrcKernel;

constexpr size_t kHeaders = 20 + 8 + 12;  // IPv4, UDP, BTH
constexpr size_t kPayloads[] = {0, 64, 128, 256, 512, 1024, 2048, 4096};
constexpr size_t kEthernet = 14;  // before the IP header

void BmIcrc(benchmark::State& state, CrcKernel kernel, size_t bytes) {
  const std::vector<uint8_t> frame(kEthernet + bytes, 1);
  for (auto _ : state) {
    benchmark::DoNotOptimize(wire::IcrcBy(kernel, frame.data() + kEthernet, 4, bytes));
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes));
  if (kernel == wire::IcrcKernel(bytes)) state.SetLabel("chosen");
}

void RegisterAll() {
  for (size_t payload : kPayloads) {
    for (CrcKernel kernel : wire::kCrcKernels) {
      if (!wire::Has(kernel)) continue;
      const std::string name = "payload " + std::to_string(payload) + "/" + wire::Name(kernel);
      benchmark::RegisterBenchmark(name.c_str(), BmIcrc, kernel, kHeaders + payload);
    }
  }
}

}  // namespace
}  // namespace pollux::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  pollux::bench::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
