// DPDK's environment (EAL), started once a process with what Pollux needs and no more.
#ifndef POLLUX_STACK_ENGINE_EAL_H_
#define POLLUX_STACK_ENGINE_EAL_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace pollux::engine {

struct EalOptions {
  enum class HugePages {
    kAuto,    // when enough are free
    kNever,   // ordinary memory: needs neither root nor set-up
    kAlways,  // FailedPrecondition when too few are free
  };
  HugePages huge_pages = HugePages::kAuto;
  unsigned memory_mib = 512;             // for packet buffers and rings
  std::vector<std::string> pci_devices;  // "0000:01:00.0"; without any, PCI is not even looked at
  // DPDK telemetry, where that is possible: see TelemetryStatus().
  bool telemetry = false;
  std::string
      file_prefix;  // of the telemetry's directory; kFilePrefix and the process ID when empty
};

// Starts EAL. The calling thread keeps its CPU affinity; no other thread polls anything, and those
// of EAL take no signal. A second call returns what the first did, whatever its options: EAL cannot
// be started twice. Errors name what was asked and what EAL said; DPDK's own log goes to standard
// error from level critical up: what it calls errors is what Status says, and more that is none.
absl::Status InitEal(const EalOptions& options = {});

// Why there is no telemetry although InitEal() was asked for it and went well; else OK.
absl::Status TelemetryStatus();

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_EAL_H_
