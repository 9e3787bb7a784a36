// Starts a node from port options.
#ifndef POLLUX_TOOLS_COMMON_START_NODE_H_
#define POLLUX_TOOLS_COMMON_START_NODE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "tools/common/node.h"
#include "tools/common/port_options.h"

namespace pollux::tools {

// The cores that the caller can use.
enum class Cores : uint8_t {
  kOne,
  kOneShared,  // Node::Options::shared
  kMany,
};

// Opens the port and starts to poll it. Errors as CheckPortOptions(), engine::InitEal(),
// engine::Device::Open() and Node::Start(); InvalidArgument if the options request more cores than
// `cores` allows.
absl::StatusOr<std::unique_ptr<Node>> StartNode(const PortOptions& port, Cores cores = Cores::kOne);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_START_NODE_H_
