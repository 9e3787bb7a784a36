// The common parts of commands that connect to a server: a node, a connection, and its end.
#ifndef POLLUX_TOOLS_POLLUX_REMOTE_H_
#define POLLUX_TOOLS_POLLUX_REMOTE_H_

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/common/node.h"
#include "tools/common/options.h"
#include "tools/common/port_options.h"
#include "tools/common/start_node.h"
#include "tools/file_service/file_client.h"

namespace pollux::tools {

struct ClientOptions {
  PortOptions port;
  uint64_t timeout_ms = 20'000;
  bool json = false;
  bool verbose = false;
};
// Declares the port options, --timeout-ms, --verbose and --json.
void DeclareClientOptions(Options& options, ClientOptions* client);

struct RemoteOptions : ClientOptions {
  uint64_t service_port = 20049;
  uint32_t program = 0;  // 0: the file service; for others only NULL can be called
  uint32_t version = 0;
  bool rpcbind = false;  // ask the server's rpcbind for the service's port
};
// Also declares --service-port and --rpcbind.
void DeclareRemoteOptions(Options& options, RemoteOptions* remote);

// A message about another host that claims the port's address (RFC 5227); nothing if none has
// claimed it so far. Another host answers the probe of a newly opened port within kProbeMs.
inline constexpr int kProbeMs = 600;
std::optional<std::string> AddressConflict(Node& node);
// Returns a better explanation than `status`, if there is one, for a command that has failed:
// another host has the port's address (it may claim it late), or the port's interface is gone.
// Otherwise returns `status`. For a successful command, an address conflict is only written to
// standard error.
absl::Status Explain(Node& node, absl::Status status);

// Adds the packet counters of the client's port.
void AddCounters(Node& node, nlohmann::ordered_json* json);

// A connection to the file service at one address. The destructor disconnects (DREQ) and stops the
// node.
class Remote {
 public:
  // Calls CatchInterrupts() once the addresses of `host` are known.
  static absl::StatusOr<std::unique_ptr<Remote>> Connect(const RemoteOptions& options,
                                                         const std::string& host,
                                                         Cores cores = Cores::kOne);
  ~Remote();
  Remote(const Remote&) = delete;
  Remote& operator=(const Remote&) = delete;

  Node& node() { return *node_; }
  FileClient& client() { return *client_; }
  const Gid& server() const { return server_; }

 private:
  Remote() = default;
  Gid server_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<FileClient> client_;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_POLLUX_REMOTE_H_
