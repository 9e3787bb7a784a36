// Ports that the CLIENTs and SVCXPRTs of a process share. A port is identified by the text of its
// options.
#ifndef POLLUX_TOOLS_TIRPC_SHARED_PORT_H_
#define POLLUX_TOOLS_TIRPC_SHARED_PORT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "rpcrdma/tirpc/host.h"
#include "rpcrdma/tirpc/service.h"
#include "tools/common/node.h"

namespace pollux::tools {

// The port, and the other options in the text.
struct RpcPlace {
  std::shared_ptr<Node> node;
  std::string key;  // identifies the port
  uint16_t service_port = 20049;
  bool rpcbind = false;
  rpcrdma::tirpc::ServiceLimits limits;  // of a service that is created there

  rpcrdma::tirpc::Host host() const {
    return {.worker = &node->device().worker(),
            .manager = &node->manager(),
            .keeps = node,
            .shared_poll = node->shared_poll(),
            .log = [raw = node.get()](const std::string& line) {
              raw->log().Write(tools::LogLevel::kInfo, "rpc", line);
            }};
  }
};

// `options` is described in pollux_rpc.h. Returns the port if it is already open, or opens it; it
// is closed when its last user releases it. Thread-safe; blocks while any port is opened, or
// this one closed. The last release of RpcPlace::node blocks while it closes the port.
// InvalidArgument if the text is invalid, or if the port is open with other options; other errors
// as StartNode().
absl::StatusOr<RpcPlace> OpenRpcPlace(const char* options);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_TIRPC_SHARED_PORT_H_
