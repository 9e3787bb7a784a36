#include "tools/bench/verbs_client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/common/interrupt.h"

namespace pollux::tools {
namespace {

// wr_id of receives; the others' is their slot.
constexpr uint64_t kReceiveId = LoadOptions::kMaxWindow;

ibv_wr_opcode OpcodeOf(VerbsOperation operation) {
  switch (operation) {
    case VerbsOperation::kEcho:
      return IBV_WR_SEND_WITH_IMM;
    case VerbsOperation::kSend:
      return IBV_WR_SEND;
    case VerbsOperation::kWrite:
      return IBV_WR_RDMA_WRITE;
    case VerbsOperation::kRead:
      return IBV_WR_RDMA_READ;
  }
  return IBV_WR_SEND;
}

}  // namespace

absl::StatusOr<std::unique_ptr<VerbsClient>> VerbsClient::Connect(
    engine::Worker* worker, cm::Manager* manager, const SocketAddress& server,
    absl::AnyInvocable<void(absl::Status)> ready) {
  std::unique_ptr<VerbsClient> made(new VerbsClient(worker, std::move(ready)));
  VerbsConnection::Config config;
  config.send_queue = kBenchReceives;
  config.receive_queue = kBenchReceives;
  auto connection = VerbsConnection::Connect(worker, manager, server, config, made.get());
  if (!connection.ok()) return connection.status();
  made->connection_ = *std::move(connection);
  worker->AddPoller(made.get());
  return made;
}

VerbsClient::~VerbsClient() { worker_->RemovePoller(this); }

absl::Status VerbsClient::OnReady() {
  auto region = connection_->Register(memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE);
  if (!region.ok()) return region.status();
  region_ = *region;
  absl::Status status;
  for (uint32_t i = 0; i < kBenchReceives && status.ok(); ++i) status = Receive();
  return status;
}

void VerbsClient::OnEstablished(absl::Span<const uint8_t> private_data) {
  auto handshake = PeerHandshake::Parse(private_data);
  if (handshake.ok()) server_ = *handshake;
  std::exchange(ready_, nullptr)(handshake.status());
}

void VerbsClient::OnEnded(const absl::Status& status) {
  const absl::Status why =
      status.ok() ? absl::AbortedError("the server has ended the connection") : status;
  ended_ = why;
  if (ready_ != nullptr) std::exchange(ready_, nullptr)(why);
  FailAll(why);
  if (gone_ != nullptr) std::exchange(gone_, nullptr)();
}

void VerbsClient::Measure(const VerbsMeasurement& measurement, Done done) {
  measurement_ = measurement;
  done_ = std::move(done);
  if (ended_) {
    result_.emplace();
    result_->status = *ended_;
    return;
  }
  load_ = std::make_unique<Load>(
      measurement.load, [this] { return clock_.NowNs(); }, [this](uint32_t slot) { Begin(slot); },
      [this](LoadResult result) { result_ = std::move(result); });
}

void VerbsClient::Stop() {
  if (load_ != nullptr && !result_) load_->Stop(absl::OkStatus());
}

bool VerbsClient::Poll(uint64_t /*now_ns*/) {
  bool busy = false;
  if (load_ != nullptr && !result_) {
    if (Interrupted()) load_->Stop(absl::CancelledError("interrupted"));
    busy = load_->Turn();
  }
  if (!result_) return busy;
  load_.reset();
  Done done = std::exchange(done_, nullptr);
  LoadResult result = *std::exchange(result_, std::nullopt);
  result.operations *= measurement_.batch;
  done(std::move(result));
  return true;
}

void VerbsClient::Begin(uint32_t slot) {
  if (absl::Status status = Post(slot); !status.ok()) {
    FailAll(status);
    load_->Ended(slot, status);
    return;
  }
  (measurement_.operation == VerbsOperation::kEcho ? echoes_ : posted_).push_back(slot);
}

absl::Status VerbsClient::Post(uint32_t slot) {
  const bool echo = measurement_.operation == VerbsOperation::kEcho;
  ibv_sge sge{reinterpret_cast<uint64_t>(memory_.data()), measurement_.bytes, region_.key};
  ibv_send_wr wr{};
  wr.wr_id = slot;
  wr.opcode = OpcodeOf(measurement_.operation);
  wr.sg_list = &sge;
  wr.num_sge = 1;
  if (!echo) {
    wr.wr.rdma.remote_addr = server_.address;
    wr.wr.rdma.rkey = server_.key;
  }
  absl::Status status;
  for (uint32_t left = measurement_.batch; left > 0 && status.ok(); --left) {
    wr.send_flags = left == 1 && !echo ? IBV_SEND_SIGNALED : 0;
    status = connection_->Send(wr);
  }
  return status;
}

absl::Status VerbsClient::Receive() {
  return connection_->Receive(
      kReceiveId, {reinterpret_cast<uint64_t>(memory_.data()), kBenchMaxBytes, region_.key});
}

void VerbsClient::OnCompletion(const ibv_wc& wc) {
  if (wc.status != IBV_WC_SUCCESS) {
    return FailAll(
        absl::InternalError(absl::StrCat("a work request failed: ", ibv_wc_status_str(wc.status))));
  }
  const bool received = wc.wr_id == kReceiveId;
  std::deque<uint32_t>& waiting = received ? echoes_ : posted_;
  if (waiting.empty()) {
    return FailAll(absl::InternalError("the server sent an unexpected message"));
  }
  const uint32_t slot = waiting.front();
  waiting.pop_front();
  load_->Ended(slot, received ? Receive() : absl::OkStatus());
}

void VerbsClient::FailAll(const absl::Status& status) {
  for (std::deque<uint32_t>* waiting : {&echoes_, &posted_}) {
    while (!waiting->empty()) {
      const uint32_t slot = waiting->front();
      waiting->pop_front();
      load_->Ended(slot, status);
    }
  }
  if (load_ != nullptr && !result_) load_->Stop(status);
}

void VerbsClient::Disconnect(absl::AnyInvocable<void()> done) {
  FailAll(absl::CancelledError("interrupted"));
  if (ended_) return done();
  gone_ = std::move(done);
  connection_->Disconnect();
}

}  // namespace pollux::tools
