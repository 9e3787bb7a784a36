#include "nfs/client/client.h"

#include <algorithm>

#include "nfs/v3/status.h"
#include "oncrpc/xdr.h"
#include "stack/base/byte_order.h"

namespace pollux::nfs {
namespace {

constexpr uint64_t kNsPerMs = 1'000'000;
constexpr size_t kMaxCredential = 400;  // RFC 5531 section 8.2

// Every procedure but NULL begins its results with the status.
bool IsJukebox(Procedure procedure, const oncrpc::Reply& reply) {
  return procedure != Procedure::kNull && reply.results.size() >= 4 &&
         LoadBe32(reply.results.data()) == static_cast<uint32_t>(Nfsstat3::kJukebox);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Create(engine::Worker* worker, cm::Manager* manager,
                                                       const oncrpc::AuthSys& credential,
                                                       const ClientConfig& config) {
  std::unique_ptr<Client> client(new Client(worker, config));
  client->binding_ = Nfs3Binding();
  client->credential_.resize(kMaxCredential);
  const oncrpc::Encoded body = oncrpc::Encode(credential, absl::MakeSpan(client->credential_));
  if (!body.ok) {
    return absl::InvalidArgumentError(
        "an AUTH_SYS credential has a name of at most 255 bytes and "
        "at most 16 groups");
  }
  rpcrdma::ClientConfig rpc;
  rpc.credits = config.credits;
  rpc.credential = {.flavor = oncrpc::AuthFlavor::kSys, .body = body.stream};
  rpc.reconnect = config.reconnect;
  auto made = rpcrdma::Client::Create(worker, manager, client->binding_, rpc);
  if (!made.ok()) return made.status();
  client->rpc_ = *std::move(made);
  if (config.log != nullptr) client->rpc_->SetRefusalLog(config.log);
  return client;
}

Client::~Client() {
  ending_ = true;
  connected_ = false;
  rpc_.reset();
  // What waited for its timer.
  while (!pending_.empty())
    Finish(pending_.front(), absl::CancelledError("the client is gone"), nullptr);
}

absl::Status Client::Connect(const SocketAddress& server,
                             absl::AnyInvocable<void(absl::Status)> on_connected) {
  return rpc_->Connect(
      server,
      [this, on_connected = std::move(on_connected)](absl::Status status) mutable {
        connected_ = status.ok();
        on_connected(std::move(status));
      },
      [this](absl::Status) {
        connected_ = false;
        if (disconnected_ != nullptr) std::exchange(disconnected_, nullptr)();
      });
}

void Client::Disconnect(absl::AnyInvocable<void()> done) {
  if (!connected_) return done();
  disconnected_ = std::move(done);
  rpc_->Disconnect();
}

Client::Pending& Client::Add(Procedure procedure, const Room& room) {
  Pending& pending = pending_.emplace_back(this, procedure);
  pending.self = std::prev(pending_.end());
  const oncrpc::ProcedureBinding& binding = *binding_.Find(static_cast<uint32_t>(procedure));
  pending.arguments.resize(binding.max_argument_bytes);
  pending.request.procedure = binding.number;
  if (!room.item.empty()) {
    pending.item_buffer = room.item;
    pending.request.item_buffers = {&pending.item_buffer, 1};
  }
  if (room.max_result_bytes > 0) {
    pending.request.max_result_bytes = room.max_result_bytes;
    pending.reply.resize(oncrpc::kReplyHeaderBytes + room.max_result_bytes);
    pending.request.reply_buffer = absl::MakeSpan(pending.reply);
  }
  return pending;
}

void Client::Start(Pending& pending, const oncrpc::Encoded& encoded) {
  if (ending_) {
    pending_.erase(pending.self);
    return;
  }
  if (!encoded.ok) {
    return FailSoon(pending, absl::InvalidArgumentError(
                                 "a name or a range is longer than NFS calls can carry"));
  }
  pending.request.arguments = encoded.stream;
  if (encoded.item.has_value()) {
    pending.item = *encoded.item;
    pending.request.items = {&pending.item, 1};
  }
  Send(pending);
}

void Client::Send(Pending& pending) {
  absl::Status status =
      rpc_->Call(pending.request, [this, &pending](absl::Status result, const oncrpc::Reply* r) {
        OnReply(pending, std::move(result), r);
      });
  if (!status.ok()) FailSoon(pending, std::move(status));
}

// Callbacks never run from inside Call().
void Client::FailSoon(Pending& pending, absl::Status status) {
  pending.failed = std::move(status);
  worker_->wheel().Arm(pending.timer, worker_->now_ns());
}

void Client::OnReply(Pending& pending, absl::Status status, const oncrpc::Reply* reply) {
  if (status.ok() && IsJukebox(pending.procedure, *reply) &&
      pending.jukeboxes + 1 < config_.jukebox_tries) {
    const uint64_t delay_ms =
        std::min<uint64_t>(uint64_t{config_.jukebox_delay_ms} << std::min(pending.jukeboxes, 16u),
                           config_.max_jukebox_delay_ms);
    ++pending.jukeboxes;
    worker_->wheel().Arm(pending.timer, worker_->now_ns() + delay_ms * kNsPerMs);
    return;
  }
  Finish(pending, std::move(status), reply);
}

void Client::Finish(Pending& pending, absl::Status status, const oncrpc::Reply* reply) {
  pending.done(std::move(status), reply);
  pending_.erase(pending.self);
}

void Client::OnTimer(void* context, uint64_t) {
  auto& pending = *static_cast<Pending*>(context);
  if (!pending.failed.ok()) return pending.client->Finish(pending, pending.failed, nullptr);
  pending.client->Send(pending);
}

}  // namespace pollux::nfs
