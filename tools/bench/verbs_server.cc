#include "tools/bench/verbs_server.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/bench/verbs_connection.h"

namespace pollux::tools {

class VerbsServer::Connection final : private VerbsConnection::User {
 public:
  Connection(VerbsServer* server, uint64_t number, const cm::Event& request)
      : server_(server), number_(number) {
    VerbsConnection::Config config;
    config.send_queue = kBenchReceives;
    config.receive_queue = kBenchReceives;
    config.private_data = [this] { return absl::MakeConstSpan(handshake_); };
    connection_ = VerbsConnection::Accept(server->worker_, server->manager_, request, config, this);
  }

 private:
  absl::Status OnReady() override;
  void OnEstablished(absl::Span<const uint8_t> /*private_data*/) override {
    stood_ = true;
    server_->OnEstablished();
  }
  void OnCompletion(const ibv_wc& wc) override;
  void OnEnded(const absl::Status& status) override { server_->OnEnded(number_, status, stood_); }
  absl::Status Receive();
  absl::Status Echo(uint32_t bytes);

  VerbsServer* server_;
  const uint64_t number_;
  bool stood_ = false;
  memory::MemoryRegion region_;
  std::array<uint8_t, PeerHandshake::kBytes> handshake_{};
  std::unique_ptr<VerbsConnection> connection_;
};

absl::Status VerbsServer::Connection::OnReady() {
  std::vector<uint8_t>& memory = server_->memory_;
  auto region = connection_->Register(
      memory.data(), memory.size(),
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
  if (!region.ok()) return region.status();
  region_ = *region;
  handshake_ = PeerHandshake{.address = reinterpret_cast<uint64_t>(memory.data()),
                             .length = static_cast<uint32_t>(memory.size()),
                             .key = region_.key}
                   .Encode();
  absl::Status status;
  for (uint32_t i = 0; i < kBenchReceives && status.ok(); ++i) status = Receive();
  return status;
}

void VerbsServer::Connection::OnCompletion(const ibv_wc& wc) {
  // What a connection that ends flushes tells nothing; the end itself follows.
  if (wc.status == IBV_WC_WR_FLUSH_ERR) return;
  absl::Status status;
  if (wc.status != IBV_WC_SUCCESS) {
    status =
        absl::InternalError(absl::StrCat("a work request failed: ", ibv_wc_status_str(wc.status)));
  } else if (wc.opcode == IBV_WC_RECV) {
    status = Receive();
  }
  if (status.ok() && wc.opcode == IBV_WC_RECV && (wc.wc_flags & IBV_WC_WITH_IMM) != 0)
    status = Echo(wc.byte_len);
  if (!status.ok()) {
    server_->Tell(status);
    connection_->Disconnect();
  }
}

absl::Status VerbsServer::Connection::Receive() {
  return connection_->Receive(
      0, {reinterpret_cast<uint64_t>(server_->memory_.data()), kBenchMaxBytes, region_.key});
}

// Nobody waits for its completion.
absl::Status VerbsServer::Connection::Echo(uint32_t bytes) {
  ibv_sge sge{reinterpret_cast<uint64_t>(server_->memory_.data()), bytes, region_.key};
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  return connection_->Send(wr);
}

absl::StatusOr<std::unique_ptr<VerbsServer>> VerbsServer::Listen(
    engine::Worker* worker, cm::Manager* manager, uint16_t port,
    absl::AnyInvocable<void(const std::string&)> log) {
  std::unique_ptr<VerbsServer> made(new VerbsServer(worker, manager, std::move(log)));
  auto id = manager->CreateId(RDMA_PS_TCP, [server = made.get()](const cm::Event& event) {
    if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) server->OnRequest(event);
  });
  if (!id.ok()) return id.status();
  made->listener_ = *id;
  absl::Status status = manager->BindAddr(*id, {.port = port});
  if (status.ok()) status = manager->Listen(*id, port);
  if (!status.ok()) return status;
  return made;
}

VerbsServer::VerbsServer(engine::Worker* worker, cm::Manager* manager,
                         absl::AnyInvocable<void(const std::string&)> log)
    : worker_(worker), manager_(manager), log_(std::move(log)) {}

VerbsServer::~VerbsServer() {
  *self_ = nullptr;
  if (listener_ != nullptr) manager_->DestroyId(listener_);
}

void VerbsServer::OnRequest(const cm::Event& request) {
  if (connections_.size() == kBenchMaxPairs) {
    manager_->Reject(request.id, {}, cm::RejectReason::kNoResources).IgnoreError();
    return manager_->DestroyId(request.id);
  }
  const uint64_t number = requests_++;
  connections_[number] = std::make_unique<Connection>(this, number, request);
}

void VerbsServer::OnEstablished() {
  ++served_;
  if (++standing_ > 1) return;
  last_failure_.clear();
  log_("a client is connected for measurements");
}

void VerbsServer::Tell(const absl::Status& failure) {
  const std::string line = absl::StrCat("measurements: ", failure.message());
  if (line != std::exchange(last_failure_, line)) log_(line);
}

void VerbsServer::OnEnded(uint64_t number, const absl::Status& status, bool stood) {
  if (!status.ok()) Tell(status);
  if (stood && --standing_ == 0) log_("the measurement client has disconnected");
  // The connection may not go while it calls.
  engine::Actor::Post(*worker_, [self = self_, number] {
    if (*self != nullptr) (*self)->connections_.erase(number);
  });
}

}  // namespace pollux::tools
