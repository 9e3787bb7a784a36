#include "tools/pollux/file_servers.h"

#include <chrono>
#include <future>
#include <utility>

#include "tools/file_service/session.h"

namespace pollux::tools {

absl::StatusOr<std::unique_ptr<FileServers>> FileServers::Listen(Node* node,
                                                                 const std::string& root,
                                                                 const Options& options) {
  std::unique_ptr<FileServers> made(new FileServers(node));
  for (uint32_t core = 0; core < node->cores(); ++core) {
    auto store = FileStore::Open(root);
    if (!store.ok()) return store.status();
    made->stores_.push_back(*std::move(store));
    auto server = node->Run(core, [&] {
      FileServer::Options own;
      own.port = options.port;
      own.read_only = options.read_only;
      own.max_connections = options.max_connections;
      own.max_connections_per_client = options.max_connections_per_client;
      own.log = options.log;
      own.has_failed = [node, core](const SocketAddress& client) {
        return node->failures(core).TakeWritten(client);
      };
      return FileServer::Listen(&node->worker(core), &node->manager(core),
                                made->stores_.back().get(), std::move(own));
    });
    if (!server.ok()) return server.status();
    made->servers_.push_back(*std::move(server));
  }
  return made;
}

FileServers::~FileServers() {
  for (uint32_t core = 0; core < servers_.size(); ++core) {
    node_->Run(core, [&] { servers_[core].reset(); });
  }
}

uint64_t FileServers::calls() {
  uint64_t calls = 0;
  node_->RunOnEach([&](uint32_t core) { calls += servers_[core]->calls(); });
  return calls;
}

void FileServers::Disconnect() {
  // Kept by the servers' callbacks, should their clients answer too late.
  const auto gone = std::make_shared<std::vector<std::promise<void>>>(servers_.size());
  node_->RunOnEach([&](uint32_t core) {
    servers_[core]->Shutdown([gone, core] { (*gone)[core].set_value(); });
  });
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(kDisconnectSeconds);
  for (std::promise<void>& one : *gone) one.get_future().wait_until(give_up);
}

}  // namespace pollux::tools
