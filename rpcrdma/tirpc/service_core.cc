#include "rpcrdma/tirpc/service_core.h"

#include <algorithm>
#include <utility>

namespace pollux::rpcrdma::tirpc {
namespace {

// A connection has two slots for each credit (settings.h), and its end.
constexpr uint32_t kMaxCalls = 2 * kCredits + 1;
// What bulk buffers may take together, where two of the size that is needed take less.
constexpr uint64_t kBulkBytes = uint64_t{64} << 20;
constexpr uint32_t kMaxBulkBuffers = 64;

ServerConfig ConfigOf(uint32_t bulk_bytes, const ServiceLimits& limits) {
  const uint64_t buffers = std::clamp<uint64_t>(kBulkBytes / bulk_bytes, 4, kMaxBulkBuffers);
  return {.max_connections = limits.max_connections,
          .max_connections_per_client = limits.max_connections_per_client,
          .credits = kCredits,
          .reverse_credits = 1,
          .bulk_buffers = static_cast<uint32_t>(buffers),
          .bulk_buffer_bytes = bulk_bytes};
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServiceCore>> ServiceCore::Create(const Host& host, uint16_t port,
                                                                 uint32_t bulk_bytes,
                                                                 const ServiceLimits& limits,
                                                                 Accepted* accepted) {
  auto server = Server::Create(host.worker, host.manager, ConfigOf(bulk_bytes, limits));
  if (!server.ok()) return server.status();
  std::unique_ptr<ServiceCore> core(new ServiceCore(accepted));
  ServiceCore* const raw = core.get();
  (*server)->SetObserver([raw](const Server::ConnectionInfo& info, bool established) {
    if (!established) raw->OnEnded(info.number);
  });
  if (host.log != nullptr) (*server)->SetRefusalLog(host.log);
  if (absl::Status status = (*server)->Listen(port); !status.ok()) return status;
  core->server_ = *std::move(server);
  return core;
}

absl::Status ServiceCore::Add(const UpperLayer* upper) {
  Program program{.binding = upper->binding, .procedures = {}, .others = nullptr};
  // Which procedures there are, the dispatch routine knows.
  program.others = [this, upper](const CallView& call, ReplyHandle reply) {
    OnCall(upper, call, std::move(reply));
  };
  return server_->RegisterProgram(std::move(program));
}

Channel* ServiceCore::ChannelOf(const CallView& call) {
  if (const auto found = channels_.find(call.connection); found != channels_.end()) {
    return found->second.get();
  }
  auto channel = std::make_shared<Channel>();
  channel->connection = call.connection;
  channel->peer = {.address = call.client_address, .port = call.client_port};
  channel->calls = Calls::Make(kMaxCalls, accepted_->backlog());
  if (channel->calls == nullptr) return nullptr;
  std::shared_ptr<Channel> shared = channel;
  if (!accepted_->Push(shared)) return nullptr;
  return channels_.emplace(call.connection, std::move(channel)).first->second.get();
}

void ServiceCore::OnCall(const UpperLayer* upper, const CallView& call, ReplyHandle reply) {
  Channel* const channel = closing_ ? nullptr : ChannelOf(call);
  if (channel == nullptr || channel->closed) return reply.Fail(oncrpc::AcceptStatus::kSystemError);
  auto pending = std::unique_ptr<PendingCall>(new PendingCall{call, upper, std::move(reply)});
  // Answered with a system error, if there ever were no room, as it is dropped.
  channel->calls->Push(pending);
}

void ServiceCore::OnEnded(uint64_t connection) {
  const auto found = channels_.find(connection);
  if (found == channels_.end()) return;
  std::unique_ptr<PendingCall> end;
  found->second->calls->Push(end);
  channels_.erase(found);
}

}  // namespace pollux::rpcrdma::tirpc
