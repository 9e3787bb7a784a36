// The file service as a server gives it.
#ifndef POLLUX_TOOLS_FILE_SERVICE_FILE_SERVER_H_
#define POLLUX_TOOLS_FILE_SERVICE_FILE_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "cm/manager.h"
#include "tools/file_service/file_store.h"

namespace pollux::tools {

// Belongs to one worker's core: made, called back and destroyed there. Calls are executed on that
// core, the file system included: a server for tools and measurements, not for slow disks.
class FileServer {
 public:
  struct Options {
    uint16_t port = 20049;
    bool read_only = false;
    // Told in words of connections made and gone, and of what was refused on them.
    absl::AnyInvocable<void(const std::string&)> log;
    // Whether the log has the end of a client's connection already, since it failed. Optional.
    absl::AnyInvocable<bool(const SocketAddress& client)> has_failed;
  };
  // `store`, `worker` and `manager` outlive the server. AlreadyExists when the port is taken.
  static absl::StatusOr<std::unique_ptr<FileServer>> Listen(engine::Worker* worker,
                                                            cm::Manager* manager, FileStore* store,
                                                            Options options);
  virtual ~FileServer() = default;

  virtual size_t connections() const = 0;
  virtual uint64_t calls() const = 0;
  // Ends all connections (DREQ) and listens no more; `done` when the last is gone.
  virtual void Shutdown(absl::AnyInvocable<void()> done) = 0;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_FILE_SERVICE_FILE_SERVER_H_
