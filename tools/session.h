// A client of the file service on a node, and the ends of client and server: what every program
// that runs them does from its main thread.
#ifndef POLLUX_TOOLS_SESSION_H_
#define POLLUX_TOOLS_SESSION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "cm/manager.h"
#include "tools/file_service/file_client.h"
#include "tools/file_service/file_server.h"
#include "tools/node.h"

namespace pollux::tools {

// How long a DREQ may stay unanswered: a peer that is gone never answers it.
inline constexpr int kGoodbyeSeconds = 5;

// Prints every CM message that the node sends and receives on standard error, decoded.
void PrintCmExchange(Node& node);

// Waits until `server` has accepted or refused. Errors as FileClient::Connect().
absl::StatusOr<std::unique_ptr<FileClient>> ConnectClient(Node& node, const cm::Endpoint& server,
                                                          const FileClient::Options& options);

// Disconnects, waits at most kGoodbyeSeconds for the peers' answers, and destroys. Null is allowed.
void End(Node& node, std::unique_ptr<FileClient> client);
void End(Node& node, std::unique_ptr<FileServer> server);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_SESSION_H_
