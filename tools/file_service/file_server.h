// A server of the file service.
#ifndef POLLUX_TOOLS_FILE_SERVICE_FILE_SERVER_H_
#define POLLUX_TOOLS_FILE_SERVICE_FILE_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "cm/manager.h"
#include "rpcrdma/server.h"
#include "tools/file_service/file_store.h"

namespace pollux::tools {

// Belongs to one worker's core: create and destroy it there; callbacks run there. Calls are
// executed on that core, including file system access, so it is meant for tools and measurements,
// not for slow disks.
class FileServer {
 public:
  // The most log lines per minute about established and ended connections, per address and in
  // total.
  static constexpr uint32_t kConnectionLinesOfAddress = 32;
  static constexpr uint32_t kConnectionLines = 128;

  struct Options {
    uint16_t port = 20049;
    bool read_only = false;
    // As in rpcrdma::ServerConfig.
    uint32_t max_connections = rpcrdma::ServerConfig{}.max_connections;
    uint32_t max_connections_per_client = rpcrdma::ServerConfig{}.max_connections_per_client;
    // Log of established and ended connections and of refused messages.
    absl::AnyInvocable<void(const std::string&)> log;
    // Returns whether the end of a client's connection was logged already as a failure. Optional.
    absl::AnyInvocable<bool(const SocketAddress& client)> has_failed;
  };
  // `store`, `worker` and `manager` must outlive the server. AlreadyExists if the port has a
  // listener.
  static absl::StatusOr<std::unique_ptr<FileServer>> Listen(engine::Worker* worker,
                                                            cm::Manager* manager, FileStore* store,
                                                            Options options);
  virtual ~FileServer() = default;

  virtual size_t connections() const = 0;
  virtual uint64_t calls() const = 0;
  // Stops listening and ends all connections by a DREQ. `done` is called when the last one is gone.
  virtual void Shutdown(absl::AnyInvocable<void()> done) = 0;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_FILE_SERVICE_FILE_SERVER_H_
