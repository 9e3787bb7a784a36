// A client on one port and an in-memory NFS server on another; the ports are connected by rings.
#ifndef POLLUX_TOOLS_NFS_NFS_FIXTURE_H_
#define POLLUX_TOOLS_NFS_NFS_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "nfs/client/memory_server_for_test.h"
#include "stack/engine/device.h"
#include "stack/engine/eal.h"
#include "tools/common/connecting.h"
#include "tools/common/node.h"
#include "tools/file_service/session.h"
#include "tools/nfs/tree.h"

namespace pollux::tools {

class NfsTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kServerAddress = 0xC0000201;

  static void SetUpTestSuite() { ASSERT_TRUE(engine::InitEal({.memory_mib = 512}).ok()); }

  void SetUp() override {
    engine::DeviceOptions a, b;
    a.addresses = {InterfaceAddress::Ipv4(kServerAddress)};
    b.addresses = {InterfaceAddress::Ipv4(kServerAddress + 1)};
    auto pair = engine::Device::OpenPair(a, b);
    ASSERT_TRUE(pair.ok()) << pair.status();
    server_node_ = *Node::Start(std::move(pair->first), Node::Options());
    client_node_ = *Node::Start(std::move(pair->second), Node::Options());
    StartServer();
    ConnectClient();
    tree_.emplace(NfsServer{*client_node_, *client_}, nfs::MemoryServer::Handle(1), "/srv");
  }
  void StartServer() {
    AtServer([this] {
      server_ = *files_.Listen(&server_node_->device().worker(), &server_node_->manager());
    });
  }
  void ConnectClient() {
    std::promise<absl::StatusOr<std::unique_ptr<nfs::Client>>> connected;
    client_node_->Run([&] {
      engine::Worker* worker = &client_node_->device().worker();
      Connecting<nfs::Client>::Start(
          worker, nfs::Client::Create(worker, &client_node_->manager(), {}),
          {.address = Gid::FromIpv4(kServerAddress), .port = nfs::kNfsRdmaPort}, {},
          [&](auto client) { connected.set_value(std::move(client)); });
    });
    auto client = connected.get_future().get();
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }
  void TearDown() override {
    End(*client_node_, std::move(client_));
    AtServer([this] { server_.reset(); });
    for (Node* node : {client_node_.get(), server_node_.get()}) node->StopPolling();
    for (Node* node : {client_node_.get(), server_node_.get()}) node->device().Close();
  }

  // Runs `work` on the server's core, where `files_` must be used.
  template <class Work>
  auto AtServer(Work work) -> std::invoke_result_t<Work> {
    return server_node_->Run(std::move(work));
  }

  static std::string TempFile(const std::string& name) {
    return std::string(getenv("TEST_TMPDIR")) + "/" + name;
  }
  static std::string Pattern(size_t bytes) {
    std::string data(bytes, '\0');
    for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<char>(i * 31 + i / 4096 + bytes);
    return data;
  }
  static void WriteLocal(const std::string& path, const std::string& data) {
    std::ofstream(path, std::ios::binary) << data;
  }
  static std::string ReadLocal(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // The contents of a file in the root; empty if it does not exist.
  std::string Remote(const std::string& name) {
    return AtServer([&] {
      const nfs::MemoryServer::File* file = files_.Find(name);
      return file == nullptr ? std::string() : std::string(file->data.begin(), file->data.end());
    });
  }

  nfs::MemoryServer files_;
  std::unique_ptr<Node> server_node_, client_node_;
  std::unique_ptr<rpcrdma::Server> server_;
  std::unique_ptr<nfs::Client> client_;
  std::optional<NfsTree> tree_;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_NFS_NFS_FIXTURE_H_
