#include "tools/common/start_node.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cm/gsi/shard.h"

namespace pollux::tools {

absl::StatusOr<std::unique_ptr<Node>> StartNode(const PortOptions& port, Cores cores) {
  if (absl::Status status = CheckPortOptions(port); !status.ok()) return status;
  if (cores != Cores::kMany && port.cores.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat("--cores: this command runs on one core, but ",
                                                   port.cores.size(), " are given; give --core N"));
  }
  engine::EalOptions eal = port.eal;
  eal.ports = {port.device.port};
  if (!port.memory_given) {
    // 10 MiB of packet buffers per worker, and rings.
    eal.memory_mib = std::max(eal.memory_mib, 64 + 16 * static_cast<unsigned>(port.cores.size()));
  }
  if (absl::Status status = StartEal(eal); !status.ok()) return status;
  auto capture = OpenCapture(port);
  if (!capture.ok()) return capture.status();
  engine::DeviceOptions open = port.Device();
  open.capture = *std::move(capture);
  open.workers = std::max<uint32_t>(1, static_cast<uint32_t>(port.cores.size()));
  open.gsi_owner = &cm::GsiOwner;
  absl::StatusOr<std::unique_ptr<engine::Device>> device = engine::Device::Open(open);
  if (!device.ok()) return device.status();
  Node::Options options;
  options.cpus = port.cores;
  options.idle = port.idle;
  options.idle_turns = static_cast<uint32_t>(port.yield_after);
  options.failure_events = port.recorder;
  options.shared = cores == Cores::kOneShared;
  return Node::Start(*std::move(device), options);
}

}  // namespace pollux::tools
