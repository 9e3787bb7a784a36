// Starts DPDK's environment (EAL) once per process, with only those parts that Pollux needs.
#ifndef POLLUX_STACK_ENGINE_EAL_H_
#define POLLUX_STACK_ENGINE_EAL_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace pollux::engine {

struct EalOptions {
  enum class HugePages {
    kAuto,    // if enough are free and this process may use them
    kNever,   // ordinary memory: needs neither root nor configuration
    kAlways,  // FailedPrecondition if too few are free or this process may not use them
  };
  HugePages huge_pages = HugePages::kAuto;
  // In MiB, for packet buffers (10 MiB per worker) and rings. At 4 KiB a page, 48 bytes of each
  // page's description are written when EAL starts.
  unsigned memory_mib = 128;
  // The devargs of the ports that will be opened. EAL must know PCI devices before it starts: they
  // decide whether it uses physical addresses. Without any, it does not scan the PCI bus.
  std::vector<std::string> ports;
  // Start DPDK telemetry, if possible: see TelemetryStatus(). Its socket exists until this process
  // ends by exit(3); forked children that exit leave it in place.
  bool telemetry = false;
  std::string file_prefix;  // names the telemetry directory; empty: kFilePrefix and the process ID
};

// Starts EAL. The calling thread keeps its CPU affinity; no other thread polls, and EAL's threads
// handle no signals but those of faulting instructions (SIGSEGV, SIGBUS and others). A second
// call returns the result of the first, whatever its options are, since EAL cannot be started
// twice. Error messages contain the request and EAL's answer. DPDK logs to standard error from
// level "critical" up: its "error" messages either repeat the returned status or are harmless.
absl::Status InitEal(const EalOptions& options = {});

// OK, or the reason why telemetry is off although it was requested and InitEal() succeeded.
absl::Status TelemetryStatus();

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_EAL_H_
