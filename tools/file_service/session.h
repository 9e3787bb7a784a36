// A client of the file service on a node, and the ends of client and server: what every program
// that runs them does from its main thread.
#ifndef POLLUX_TOOLS_FILE_SERVICE_SESSION_H_
#define POLLUX_TOOLS_FILE_SERVICE_SESSION_H_

#include <chrono>
#include <future>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "cm/manager.h"
#include "tools/common/node.h"
#include "tools/file_service/file_client.h"
#include "tools/file_service/file_server.h"

namespace pollux::tools {

// How long a DREQ may stay unanswered: a peer that is gone never answers it.
inline constexpr int kGoodbyeSeconds = 5;

// Prints every CM message that the node sends and receives on standard error, decoded.
void PrintCmExchange(Node& node);

// Until a SIGINT or SIGTERM, not a SIGHUP that reloads, which is logged; or until the ground goes
// from under the port, since nobody could reach it any more: what its CheckInterface() says. Tells
// the service manager that the service is ready, lives, and stops.
absl::Status StayUntilInterrupted(Node& node);

// Waits until `server` has accepted or refused. Errors as FileClient::Connect().
absl::StatusOr<std::unique_ptr<FileClient>> ConnectClient(Node& node, const SocketAddress& server,
                                                          const FileClient::Options& options);

// `begin` starts the goodbye and gives its end to the callback it is handed; `destroy` may run with
// that callback still held, and is the last that holds it.
template <class Begin, class Destroy>
void SayGoodbye(Node& node, Begin begin, Destroy destroy) {
  std::promise<void> gone;
  node.Run([&] { begin([&gone] { gone.set_value(); }); });
  gone.get_future().wait_for(std::chrono::seconds(kGoodbyeSeconds));
  node.Run(destroy);
}

// Disconnects, waits at most kGoodbyeSeconds for the peers' answers, and destroys. Null is allowed.
template <class Client>
void End(Node& node, std::unique_ptr<Client> client) {
  if (client == nullptr) return;
  SayGoodbye(
      node, [&](auto done) { client->Disconnect(std::move(done)); }, [&] { client.reset(); });
}
void End(Node& node, std::unique_ptr<FileServer> server);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_FILE_SERVICE_SESSION_H_
