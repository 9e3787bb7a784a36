// The options for a command's port and its addresses.
#ifndef POLLUX_TOOLS_COMMON_PORT_OPTIONS_H_
#define POLLUX_TOOLS_COMMON_PORT_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "stack/engine/device.h"
#include "stack/engine/eal.h"
#include "stack/engine/polling/idle_option.h"
#include "stack/transport/congestion/dcqcn_parameters.h"
#include "tools/common/options.h"

namespace pollux::tools {

struct PortOptions {
  engine::DeviceOptions device;
  engine::EalOptions eal;
  bool memory_given = false;  // eal.memory_mib is the value of --memory
  std::string capture;        // file name; empty: none
  std::vector<int> cores;     // CPUs, with one worker on each; empty: one worker on any CPU
  engine::Idle idle = engine::Idle::kYield;
  uint64_t queue_pairs = 0;    // for each worker; 0: the default of DeviceOptions
  uint64_t yield_after = 256;  // idle turns before a thread idles; 0: never
  uint64_t vlan = 0;           // for addresses without a VLAN of their own; 0: none
  uint64_t mtu = 0;            // of the network; 0: the port's
  bool recorder = false;       // log the last events of failed connections
  bool dcqcn = false;          // congestion control
  std::optional<transport::DcqcnParameters> dcqcn_parameters;  // if given, it is enabled

  // The options of the device to open: `device` with `vlan` and congestion control applied.
  engine::DeviceOptions Device() const;
};

// Declares --netdev, --vlan, --kernel-path, --cores, --queue-pairs, --recorder, --dcqcn,
// --dcqcn-parameters, and those of DeclareOwnPortOptions() and DeclareWireOptions().
void DeclarePortOptions(Options& options, PortOptions* port);
// Declares --port, --address, --gateway, --mtu, --mac, --core, --idle and --yield-after, for a
// command that has a port but no connections. `device.forwards_all` must be set already.
void DeclareOwnPortOptions(Options& options, PortOptions* port);
// Declares only --impair, --capture, --memory and --file-prefix, for a command that has its own
// ports.
void DeclareWireOptions(Options& options, PortOptions* port);

// Starts EAL with these options and with telemetry. If telemetry is not available, writes one line
// with the reason to standard error. Errors as engine::InitEal().
absl::Status StartEal(const engine::EalOptions& eal);

// Opens the file of --capture for DeviceOptions::capture; null without the option. Writes one line
// to standard error if the file has another name than that of the option. The last release of the
// pointer closes the file, and writes to standard error if frames are missing. Call it after
// engine::InitEal(). Errors as io::CaptureFile::Open().
absl::StatusOr<std::shared_ptr<io::CaptureFile>> OpenCapture(const PortOptions& port);

// InvalidArgument if a required option is missing, for a CPU that the machine does not have, or for
// an address on a VLAN if the device forwards all frames.
absl::Status CheckPortOptions(const PortOptions& port);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_PORT_OPTIONS_H_
