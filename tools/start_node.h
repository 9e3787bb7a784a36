// From port options to a node that runs.
#ifndef POLLUX_TOOLS_START_NODE_H_
#define POLLUX_TOOLS_START_NODE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "tools/node.h"
#include "tools/port_options.h"

namespace pollux::tools {

// Opens the port and starts to poll it. `shared`: as Node::Options has it. Errors as
// CheckPortOptions(), engine::InitEal() and engine::Device::Open().
absl::StatusOr<std::unique_ptr<Node>> StartNode(const PortOptions& port, bool shared = false);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_START_NODE_H_
