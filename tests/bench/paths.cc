// What the main paths cost in instructions; under callgrind one dump for each path.
#include <valgrind/callgrind.h>

#include <cstdio>
#include <ctime>
#include <memory>
#include <string>

#include "stack/engine/eal.h"
#include "tests/bench/other_measurements.h"
#include "tests/bench/path_load.h"

namespace pollux::bench {
namespace {

double CpuNs() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

}  // namespace

int MeasurePaths(int argc, char** argv) {
  absl::Status status = engine::InitEal({.memory_mib = 256});
  auto load = status.ok() ? PathLoad::Open() : status;
  if (!load.ok()) {
    std::fprintf(stderr, "bench paths: %s\n", std::string(load.status().message()).c_str());
    return 1;
  }
  const std::string only = argc > 1 ? argv[1] : "";
  const uint64_t scale = argc > 2 ? std::stoul(argv[2]) : 1;
  std::printf("%-24s%12s%16s%16s\n", "path", "messages", "packets/message", "CPU ns/message");
  for (PathLoad::Path& path : (*load)->paths()) {
    if (!only.empty() && path.name.find(only) == std::string::npos) continue;
    path.run(path.messages / 4);  // warm
    const uint64_t packets = (*load)->sent_packets();
    const double start_ns = CpuNs();
    CALLGRIND_START_INSTRUMENTATION;
    path.run(path.messages * scale);
    CALLGRIND_STOP_INSTRUMENTATION;
    const double ns = CpuNs() - start_ns;
    CALLGRIND_DUMP_STATS_AT(path.name.c_str());
    CALLGRIND_ZERO_STATS;
    std::printf("%-24s%12lu%16.2f%16.1f\n", path.name.c_str(), path.messages * scale,
                static_cast<double>((*load)->sent_packets() - packets) /
                    static_cast<double>(path.messages * scale),
                ns / static_cast<double>(path.messages * scale));
  }
  std::printf("retransmitted %lu\n", (*load)->retransmitted());
  return 0;
}

}  // namespace pollux::bench
