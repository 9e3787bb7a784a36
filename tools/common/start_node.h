// From port options to a node that runs.
#ifndef POLLUX_TOOLS_COMMON_START_NODE_H_
#define POLLUX_TOOLS_COMMON_START_NODE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "tools/common/node.h"
#include "tools/common/port_options.h"

namespace pollux::tools {

// How many cores the caller has work for.
enum class Cores : uint8_t {
  kOne,
  kOneShared,  // Node::Options::shared
  kMany,
};

// Opens the port and starts to poll it. Errors as CheckPortOptions(), engine::InitEal(),
// engine::Device::Open() and Node::Start(); InvalidArgument when more cores are asked for than
// `cores` allows.
absl::StatusOr<std::unique_ptr<Node>> StartNode(const PortOptions& port, Cores cores = Cores::kOne);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_START_NODE_H_
