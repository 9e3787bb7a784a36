// What the commands that talk to a server share: a node, a connection, and the way out.
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
  uint32_t program = 0;  // the file service's when 0; only NULL can be called of others
  uint32_t version = 0;
  bool rpcbind = false;  // ask the server's for the service's port
};
// Declares --service-port and --rpcbind too.
void DeclareRemoteOptions(Options& options, RemoteOptions* remote);

// Who else claimed the port's address (RFC 5227), in words for people; nothing when nobody did so
// far. The probe of a fresh port is answered, if at all, within kProbeMs.
inline constexpr int kProbeMs = 600;
std::optional<std::string> AddressConflict(Node& node);
// What explains the end of a command that has failed better than `status`: that the port's address
// is taken (who is there may say it late), or that the interface under the port is gone. Else
// `status`. Of one that did its work, that the address is taken is a line on standard error.
absl::Status Explain(Node& node, absl::Status status);

// What the client's side of the wire cost.
void AddCounters(Node& node, nlohmann::ordered_json* json);

// A connection to the file service at one address. Disconnects (DREQ) and stops in the end.
class Remote {
 public:
  // Catches interrupts once `host` has its addresses.
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
