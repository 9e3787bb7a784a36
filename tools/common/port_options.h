// The options by which every command names its port and its place on the network.
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
  std::string capture;     // file; empty: none
  std::vector<int> cores;  // CPUs, a worker on each; empty: one worker, on any
  engine::Idle idle = engine::Idle::kYield;
  uint64_t yield_after = 256;  // idle turns before that; 0: never
  uint64_t vlan = 0;           // of the addresses that name none; 0: none
  bool recorder = false;       // the last events of connections that fail are written down
  bool dcqcn = false;          // congestion control
  std::optional<transport::DcqcnParameters> dcqcn_parameters;  // given: it is on

  // `device` with `vlan` and the congestion control applied: what to open.
  engine::DeviceOptions Device() const;
};

// Declares --port, --netdev, --kernel-path, --address, --vlan, --gateway, --mac, --core, --cores,
// --idle, --yield-after, --recorder, --dcqcn, --dcqcn-parameters, and those of
// DeclareWireOptions().
void DeclarePortOptions(Options& options, PortOptions* port);
// Only --impair, --capture, --memory, --file-prefix: for a command that brings its own ports.
void DeclareWireOptions(Options& options, PortOptions* port);

// Starts EAL as the options ask, with telemetry; where there can be none, one line on standard
// error says why. Errors as engine::InitEal().
absl::Status StartEal(const engine::EalOptions& eal);

// The file that --capture names, for DeviceOptions::capture; null without the option. Whoever
// releases it last ends the file, and tells standard error if frames are missing in it. After
// engine::InitEal(). Errors as net::CaptureFile::Open.
absl::StatusOr<std::shared_ptr<io::CaptureFile>> OpenCapture(const PortOptions& port);

// InvalidArgument when what every port needs was not given, or a CPU that the machine has not.
absl::Status CheckPortOptions(const PortOptions& port);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_PORT_OPTIONS_H_
