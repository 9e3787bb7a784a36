// Connects a client of the file service on a node, and ends clients and servers. Used on the main
// threads of programs.
#ifndef POLLUX_TOOLS_FILE_SERVICE_SESSION_H_
#define POLLUX_TOOLS_FILE_SERVICE_SESSION_H_

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "cm/manager.h"
#include "tools/common/node.h"
#include "tools/file_service/file_client.h"
#include "tools/file_service/file_server.h"

namespace pollux::tools {

// The time for which to wait for the reply to a DREQ; a peer that is gone never replies.
inline constexpr int kDisconnectSeconds = 5;

// Prints every CM message that the node sends and receives on standard error, decoded.
void PrintCmExchange(Node& node);

// What a service does until it is interrupted.
struct ServiceActions {
  // Puts a configuration into effect. An error must have changed nothing.
  using Apply = std::function<absl::Status()>;
  std::string name;  // of the command, for the log
  // Reads the configuration again, at SIGHUP, and returns what puts it into effect. Runs on a
  // thread of its own, once at a time, and may block. StayUntilInterrupted() does not wait for it,
  // because a resolver without a name server takes longer than a service manager waits for the end,
  // and a file system may never answer. So `reload` must own all that it uses. The function that it
  // returns is called on the same thread, and only while StayUntilInterrupted() runs, which does
  // wait for that function. Errors of both are logged. Null: there is no configuration.
  std::function<absl::StatusOr<Apply>()> reload;
  // Called once per heartbeat, at least every second; not while `reload` runs. May be null.
  std::function<void()> tick;
};

// Returns OK after SIGINT or SIGTERM, or the error of engine::Device::CheckInterface() if the
// port's interface or the kernel path's tap is gone, because no peer could reach it any more.
// Notifies the service manager that the service is ready, is alive, reads its configuration again,
// and stops.
absl::Status StayUntilInterrupted(Node& node, const ServiceActions& actions);

// Connects and waits until `server` has accepted or refused. Errors as FileClient::Connect().
absl::StatusOr<std::unique_ptr<FileClient>> ConnectClient(Node& node, const SocketAddress& server,
                                                          const FileClient::Options& options);

// `begin` starts the disconnection and calls the callback that it receives when that has ended. If
// it does not end in time, `destroy` runs with the callback still held, and must release it.
template <class Begin, class Destroy>
void DisconnectAndDestroy(Node& node, Begin begin, Destroy destroy) {
  std::promise<void> gone;
  node.Run([&] { begin([&gone] { gone.set_value(); }); });
  gone.get_future().wait_for(std::chrono::seconds(kDisconnectSeconds));
  node.Run(destroy);
}

// Disconnects, waits at most kDisconnectSeconds for the peers' replies, and destroys the object.
// Null is allowed.
template <class Client>
void End(Node& node, std::unique_ptr<Client> client) {
  if (client == nullptr) return;
  DisconnectAndDestroy(
      node, [&](auto done) { client->Disconnect(std::move(done)); }, [&] { client.reset(); });
}
void End(Node& node, std::unique_ptr<FileServer> server);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_FILE_SERVICE_SESSION_H_
