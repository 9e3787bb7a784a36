#include "tools/bench/verbs_server.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace pollux::tools {

absl::StatusOr<std::unique_ptr<VerbsServer>> VerbsServer::Listen(
    engine::Worker* worker, cm::Manager* manager, uint16_t port,
    absl::AnyInvocable<void(const std::string&)> log) {
  std::unique_ptr<VerbsServer> made(new VerbsServer(worker, manager, port, std::move(log)));
  if (absl::Status status = made->ListenAgain(); !status.ok()) return status;
  return made;
}

VerbsServer::~VerbsServer() { *self_ = nullptr; }

absl::Status VerbsServer::ListenAgain() {
  VerbsConnection::Config config;
  config.send_queue = kBenchReceives;
  config.receive_queue = kBenchReceives;
  config.private_data = [this] { return absl::MakeConstSpan(greeting_); };
  connection_.reset();
  auto listening = VerbsConnection::Listen(worker_, manager_, {.port = port_}, config, this);
  if (!listening.ok()) return listening.status();
  connection_ = *std::move(listening);
  return absl::OkStatus();
}

absl::Status VerbsServer::OnReady() {
  auto region = connection_->Register(
      memory_.data(), memory_.size(),
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
  if (!region.ok()) return region.status();
  region_ = *region;
  greeting_ = Greeting{.address = reinterpret_cast<uint64_t>(memory_.data()),
                       .length = static_cast<uint32_t>(memory_.size()),
                       .key = region_.key}
                  .Encode();
  absl::Status status;
  for (uint32_t i = 0; i < kBenchReceives && status.ok(); ++i) status = Receive();
  return status;
}

void VerbsServer::OnEstablished(absl::Span<const uint8_t> /*private_data*/) {
  ++clients_;
  log_("a client is connected for measurements");
}

void VerbsServer::OnCompletion(const ibv_wc& wc) {
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
    log_(absl::StrCat("measurements: ", status.message()));
    connection_->Disconnect();
  }
}

void VerbsServer::OnEnded(const absl::Status& status) {
  log_(status.ok() ? "the client of the measurements has gone"
                   : absl::StrCat("measurements: ", status.message()));
  // The connection may not go while it calls.
  engine::Party::Post(*worker_, [self = self_] {
    if (*self == nullptr) return;
    const absl::Status again = (*self)->ListenAgain();
    if (!again.ok()) (*self)->log_(absl::StrCat("measurements: ", again.message()));
  });
}

absl::Status VerbsServer::Receive() {
  return connection_->Receive(
      0, {reinterpret_cast<uint64_t>(memory_.data()), kBenchMaxBytes, region_.key});
}

// Nobody waits for its completion.
absl::Status VerbsServer::Echo(uint32_t bytes) {
  ibv_sge sge{reinterpret_cast<uint64_t>(memory_.data()), bytes, region_.key};
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  return connection_->Send(wr);
}

}  // namespace pollux::tools
