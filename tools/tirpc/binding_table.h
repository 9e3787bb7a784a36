// The upper-layer bindings that a process has set (pollux_rpc_bind()).
#ifndef POLLUX_TOOLS_TIRPC_BINDING_TABLE_H_
#define POLLUX_TOOLS_TIRPC_BINDING_TABLE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "rpcrdma/tirpc/upper_layer.h"
#include "tools/tirpc/pollux_rpc.h"

namespace pollux::tools {

// Sets a binding; replaces the previous one of the program and version. InvalidArgument with the
// reason. All functions here are thread-safe.
absl::Status StateBinding(const pollux_program& program);
// Returns the binding that was set, or UpperLayer::Default().
rpcrdma::tirpc::UpperLayer FindBinding(uint32_t program, uint32_t version);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_TIRPC_BINDING_TABLE_H_
