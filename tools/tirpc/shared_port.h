// Ports that the CLIENTs and SVCXPRTs of a process share, named by the text of their options.
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

// What the text says beside the port.
struct RpcPlace {
  std::shared_ptr<Node> node;
  std::string key;  // of the port
  uint16_t service_port = 20049;
  bool rpcbind = false;
  rpcrdma::tirpc::ServiceLimits limits;  // of a service that is made there

  rpcrdma::tirpc::Host host() const {
    return {.worker = &node->device().worker(),
            .manager = &node->manager(),
            .keeps = node,
            .shared_poll = node->shared_poll(),
            .log = [raw = node.get()](const std::string& line) { raw->log().Write(line + "\n"); }};
  }
};

// `options` as pollux_rpc.h has it. The port that is open already, or a fresh one, which is closed
// when the last that shares it lets it go. Any thread; blocks while a port is opened.
// InvalidArgument when the text is wrong, or the port is open with other options; errors as
// StartNode().
absl::StatusOr<RpcPlace> OpenRpcPlace(const char* options);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_TIRPC_SHARED_PORT_H_
