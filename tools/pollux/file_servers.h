// The file service on every core of a node.
#ifndef POLLUX_TOOLS_POLLUX_FILE_SERVERS_H_
#define POLLUX_TOOLS_POLLUX_FILE_SERVERS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/common/node.h"
#include "tools/file_service/file_server.h"
#include "tools/file_service/file_store.h"

namespace pollux::tools {

// Create and destroy it on a control thread, while the node polls.
class FileServers {
 public:
  struct Options {
    uint16_t port = 20049;
    bool read_only = false;
    // As in FileServer::Options, for each core.
    uint32_t max_connections = FileServer::Options{}.max_connections;
    uint32_t max_connections_per_client = FileServer::Options{}.max_connections_per_client;
    // As in FileServer::Options; called on any core.
    std::function<void(const std::string&)> log;
  };

  // Starts one server per core, each with its own descriptor of the directory. `node` must outlive
  // them. Errors as FileStore::Open() and FileServer::Listen().
  static absl::StatusOr<std::unique_ptr<FileServers>> Listen(Node* node, const std::string& root,
                                                             const Options& options);
  ~FileServers();
  FileServers(const FileServers&) = delete;
  FileServers& operator=(const FileServers&) = delete;

  uint64_t calls();
  // Disconnects, and waits at most kDisconnectSeconds for the clients' replies.
  void Disconnect();

 private:
  explicit FileServers(Node* node) : node_(node) {}

  Node* const node_;
  std::vector<std::unique_ptr<FileStore>> stores_;
  std::vector<std::unique_ptr<FileServer>> servers_;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_POLLUX_FILE_SERVERS_H_
