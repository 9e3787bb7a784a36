#include "rpcrdma/tirpc/client_core.h"

#include <algorithm>
#include <utility>

namespace pollux::rpcrdma::tirpc {
namespace {

// Of one CLIENT there is one call at a time; those that timed out wait for their late replies.
constexpr ClientConfig kConfig = {
    .credits = 8,
    .reverse_credits = 1,
    .max_calls = 64,
    .reconnect = {.attempts = 10, .first_delay_ms = 50, .max_delay_ms = 2000}};

}  // namespace

absl::StatusOr<std::unique_ptr<ClientCore>> ClientCore::Create(const Host& host,
                                                               const SocketAddress& server,
                                                               oncrpc::ProgramBinding binding) {
  auto client = Client::Create(host.worker, host.manager, std::move(binding), kConfig);
  if (!client.ok()) return client.status();
  std::unique_ptr<ClientCore> core(new ClientCore(host, server));
  core->client_ = *std::move(client);
  if (host.log != nullptr) core->client_->SetRefusalLog(host.log);
  return core;
}

ClientCore::ClientCore(const Host& host, const SocketAddress& server)
    : host_(host),
      server_(server),
      disconnect_timer_(&ClientCore::OnDisconnectTimeout, this),
      timer_(&ClientCore::OnTimeout, this) {}

ClientCore::~ClientCore() {
  awaits_connection_ = false;
  on_disconnected_ = nullptr;
  client_.reset();
}

void ClientCore::Connect(uint64_t timeout_ns, Outcome* outcome, absl::AnyInvocable<void()> done) {
  Begin(nullptr, timeout_ns, outcome, std::move(done));
}

void ClientCore::Call(const oncrpc::CallRequest* request, Outcome* outcome,
                      absl::AnyInvocable<void()> done) {
  Begin(request, request->timeout_ns, outcome, std::move(done));
}

void ClientCore::Begin(const oncrpc::CallRequest* request, uint64_t timeout_ns, Outcome* outcome,
                       absl::AnyInvocable<void()> done) {
  request_ = request;
  outcome_ = outcome;
  outcome->sent = false;
  done_ = std::move(done);
  deadline_ns_ = timeout_ns == 0 ? 0 : host_.worker->now_ns() + timeout_ns;
  if (client_->connected() || client_->reconnecting()) {
    return request == nullptr ? End(absl::OkStatus()) : Send(timeout_ns);
  }
  awaits_connection_ = true;
  if (deadline_ns_ != 0) host_.worker->wheel().Arm(timer_, deadline_ns_);
  if (connecting_) return;
  connecting_ = true;
  const auto on_connected = [this](const absl::Status& status) { OnConnected(status); };
  absl::Status status =
      client_->Connect(server_, on_connected, [this](const absl::Status&) { OnEnded(); });
  if (!status.ok()) OnConnected(status);
}

void ClientCore::OnConnected(const absl::Status& status) {
  connecting_ = false;
  if (!std::exchange(awaits_connection_, false)) return;
  timer_.Cancel();
  if (!status.ok() || request_ == nullptr) return End(status);
  // At least a tick is left: the timer has not fired.
  const uint64_t now_ns = host_.worker->now_ns();
  Send(deadline_ns_ == 0 ? 0 : std::max(deadline_ns_, now_ns + 1) - now_ns);
}

void ClientCore::OnTimeout(void* core, uint64_t /*now_ns*/) {
  auto& self = *static_cast<ClientCore*>(core);
  self.awaits_connection_ = false;
  self.End(absl::DeadlineExceededError("no connection in time"));
}

void ClientCore::Disconnect(absl::AnyInvocable<void()> done) {
  if (!client_->connected()) return done();
  on_disconnected_ = std::move(done);
  host_.worker->wheel().Arm(disconnect_timer_, host_.worker->now_ns() + kDisconnectTimeoutNs);
  client_->Disconnect();
}

void ClientCore::OnEnded() {
  disconnect_timer_.Cancel();
  if (on_disconnected_) std::exchange(on_disconnected_, nullptr)();
}

void ClientCore::OnDisconnectTimeout(void* core, uint64_t /*now_ns*/) {
  static_cast<ClientCore*>(core)->OnEnded();
}

void ClientCore::Send(uint64_t timeout_ns) {
  oncrpc::CallRequest request = *request_;
  request.timeout_ns = timeout_ns;
  const absl::Status status = client_->Call(
      request, [this](const absl::Status& over, const oncrpc::Reply* reply) { Take(over, reply); });
  if (!status.ok()) return End(status);
  outcome_->sent = true;
}

void ClientCore::Take(const absl::Status& status, const oncrpc::Reply* reply) {
  if (reply == nullptr) return End(status);
  Outcome& outcome = *outcome_;
  outcome.header = reply->header;
  const absl::Span<const uint8_t> verifier = reply->header.verifier.body;
  std::copy(verifier.begin(), verifier.end(), outcome.verifier.begin());
  outcome.header.verifier.body = absl::MakeConstSpan(outcome.verifier).first(verifier.size());
  const uint8_t* const begin = request_->reply_buffer.data();
  const bool in_buffer = reply->results.data() >= begin &&
                         reply->results.data() < begin + request_->reply_buffer.size();
  if (!in_buffer) outcome.message.assign(reply->results.begin(), reply->results.end());
  outcome.results = in_buffer ? reply->results : absl::MakeConstSpan(outcome.message);
  outcome.item_count = reply->items.size();
  std::copy(reply->items.begin(), reply->items.end(), outcome.items.begin());
  End(absl::OkStatus());
}

void ClientCore::End(absl::Status status) {
  outcome_->status = std::move(status);
  request_ = nullptr;
  std::exchange(done_, nullptr)();
}

}  // namespace pollux::rpcrdma::tirpc
