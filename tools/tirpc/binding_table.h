// The upper-layer bindings that a process has stated.
#ifndef POLLUX_TOOLS_TIRPC_BINDING_TABLE_H_
#define POLLUX_TOOLS_TIRPC_BINDING_TABLE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "rpcrdma/tirpc/upper_layer.h"
#include "tools/tirpc/pollux_rpc.h"

namespace pollux::tools {

// In place of what was stated for the program and version before. InvalidArgument, with what is
// wrong. Any thread, as all here.
absl::Status StateBinding(const pollux_program& program);
// As stated, or UpperLayer::Default().
rpcrdma::tirpc::UpperLayer FindBinding(uint32_t program, uint32_t version);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_TIRPC_BINDING_TABLE_H_
