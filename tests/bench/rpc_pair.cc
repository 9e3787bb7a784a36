#include "tests/bench/rpc_pair.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "tools/bench/core_to_core.h"
#include "tools/file_service/session.h"

namespace pollux::bench {

absl::StatusOr<std::unique_ptr<RpcPair>> RpcPair::Start(engine::Device::Pair devices,
                                                        engine::Idle idle) {
  std::unique_ptr<RpcPair> pair(new RpcPair());
  if (absl::Status status = pair->Connect(std::move(devices), idle); !status.ok()) return status;
  return pair;
}

absl::Status RpcPair::Connect(engine::Device::Pair devices, engine::Idle idle) {
  tools::Node::Options at;
  at.idle = idle;
  const std::vector<int> cpus = tools::UsableCpus();
  if (!cpus.empty()) at.cpus = {cpus.front()};
  auto server = tools::Node::Start(std::move(devices.first), at);
  if (!server.ok()) return server.status();
  server_node_ = *std::move(server);
  if (cpus.size() > 1) at.cpus = {cpus[1]};
  auto client = tools::Node::Start(std::move(devices.second), at);
  if (!client.ok()) return client.status();
  client_node_ = *std::move(client);
  // In memory: the disk is not what is measured.
  std::string pattern = "/dev/shm/pollux-bench-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) return absl::ErrnoToStatus(errno, pattern);
  directory_ = pattern;
  auto store = tools::FileStore::Open(directory_);
  if (!store.ok()) return store.status();
  store_ = *std::move(store);
  absl::Status status = server_node_->Run([this]() -> absl::Status {
    auto listening =
        tools::FileServer::Listen(&server_node_->device().worker(), &server_node_->manager(),
                                  store_.get(), tools::FileServer::Options());
    if (!listening.ok()) return listening.status();
    server_ = *std::move(listening);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  auto connected = tools::ConnectClient(
      *client_node_, {.address = server_node_->device().gid(), .port = 20049}, {});
  if (!connected.ok()) return connected.status();
  client_ = *std::move(connected);
  return absl::OkStatus();
}

RpcPair::~RpcPair() {
  if (client_node_ != nullptr) tools::End(*client_node_, std::move(client_));
  if (server_node_ != nullptr) tools::End(*server_node_, std::move(server_));
  for (tools::Node* node : {client_node_.get(), server_node_.get()}) {
    if (node != nullptr) node->StopPolling();
  }
  for (tools::Node* node : {client_node_.get(), server_node_.get()}) {
    if (node != nullptr) node->device().Close();
  }
  std::error_code ignored;
  if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
}

}  // namespace pollux::bench
