// A client of the file service: typed calls on one connection.
#ifndef POLLUX_TOOLS_FILE_SERVICE_FILE_CLIENT_H_
#define POLLUX_TOOLS_FILE_SERVICE_FILE_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cm/manager.h"
#include "tools/file_service/file_protocol.h"
#include "tools/file_service/file_store.h"

namespace pollux::tools {

// Belongs to one worker's core: create, use and destroy it there; callbacks run there. Any number
// of calls may be made; those beyond the credits wait.
class FileClient {
 public:
  template <class T>
  using Done = absl::AnyInvocable<void(absl::StatusOr<T>)>;
  using DoneStatus = absl::AnyInvocable<void(absl::Status)>;

  // The negotiated parameters of the connection.
  struct Negotiated {
    uint32_t client_to_server_inline = 0;  // bytes
    uint32_t server_to_client_inline = 0;
    bool peer_sent_private_data = false;
    uint32_t credits = 0;  // granted so far
  };

  struct Options {
    uint32_t timeout_ms = 20'000;
    // An RPC program to call instead of the file service; then only NULL can be called. 0: the file
    // service.
    uint32_t program = 0;
    uint32_t version = 0;
    // Called repeatedly while connecting; if it returns true, connecting is cancelled. Optional.
    bool (*cancelled)() = nullptr;
    // Optional log of messages from the server that were refused; called on the core.
    std::function<void(const std::string& line)> log;
  };

  // Connects to `server`. `done` receives the client, ready for calls, or an error that states who
  // refused and why.
  static void Connect(engine::Worker* worker, cm::Manager* manager, const SocketAddress& server,
                      const Options& options, Done<std::unique_ptr<FileClient>> done);
  virtual ~FileClient() = default;

  virtual Negotiated negotiated() const = 0;

  virtual void Null(DoneStatus done) = 0;
  virtual void Stat(const std::string& name, Done<FileStore::Attributes> done) = 0;
  // Reads into the start of `buffer`, which must remain valid until `done`. At most kMaxBlock
  // bytes.
  virtual void Read(const std::string& name, uint64_t offset, absl::Span<uint8_t> buffer,
                    Done<size_t> done) = 0;
  virtual void Create(const std::string& name, DoneStatus done) = 0;
  // `data` must remain valid until `done`. At most kMaxBlock bytes.
  virtual void Write(const std::string& name, uint64_t offset, absl::Span<const uint8_t> data,
                     DoneStatus done) = 0;
  struct Page {
    std::vector<FileStore::Entry> entries;
    bool more = false;
  };
  virtual void List(const std::string& after, Done<Page> done) = 0;

  // Sends a DREQ. Calls in progress fail first; then `done` is called when the connection is gone.
  virtual void Disconnect(absl::AnyInvocable<void()> done) = 0;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_FILE_SERVICE_FILE_CLIENT_H_
