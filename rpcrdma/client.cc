#include "rpcrdma/client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rpcrdma/connection/settings.h"
#include "rpcrdma/connection/stats.h"

namespace pollux::rpcrdma {
namespace {

// Of what the server may call: as many as can be outstanding, and have come again.
constexpr uint32_t kCachedRepliesPerCredit = 4;
constexpr uint32_t kCachedReplyBytes = 1024;

absl::Status Failed(const SocketAddress& server, const cm::Event& event) {
  const std::string where = absl::StrCat("connecting to ", ToString(server), ": ");
  switch (event.type) {
    case RDMA_CM_EVENT_REJECTED:
      return absl::UnavailableError(
          event.status == 8
              ? absl::StrCat(where, "nothing listens there (REJ reason 8); check the port")
              : absl::StrCat(where, "the server rejected the connection: ",
                             cm::RejectReasonName(static_cast<uint16_t>(event.status)),
                             " (REJ reason ", event.status, ")"));
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return absl::UnavailableError(absl::StrCat(where,
                                                 "no such host on the network (no answer to ARP or "
                                                 "neighbour discovery); check the address"));
    case RDMA_CM_EVENT_UNREACHABLE:
      return absl::UnavailableError(
          absl::StrCat(where, "the host does not answer connection requests"));
    default:
      return absl::UnavailableError(
          absl::StrCat(where, rdma_event_str(event.type), ", status ", event.status));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Create(engine::Worker* worker, cm::Manager* manager,
                                                       oncrpc::ProgramBinding binding,
                                                       const ClientConfig& config) {
  // RFC 8166 section 6
  if (absl::Status status = binding.Validate(); !status.ok()) return status;
  absl::Status status = CheckSettings(config.credits, config.reverse_credits, config.send_bytes,
                                      config.receive_bytes);
  if (!status.ok()) return status;
  if (config.max_calls == 0 || config.credential.body.size() > oncrpc::kMaxAuthBytes) {
    return absl::InvalidArgumentError("max_calls is 0, or the credential longer than 400 bytes");
  }
  std::unique_ptr<Client> client(new Client(worker, manager, std::move(binding), config));
  worker->AddPoller(client.get());
  worker->AddStatsProvider(client.get());
  OfferTopic();
  return client;
}

Client::Client(engine::Worker* worker, cm::Manager* manager, oncrpc::ProgramBinding binding,
               const ClientConfig& config)
    : worker_(worker),
      manager_(manager),
      binding_(std::move(binding)),
      config_(config),
      replies_(config.reverse_credits * kCachedRepliesPerCredit, kCachedReplyBytes),
      retry_timer_(&Client::OnRetry, this) {}

Client::~Client() {
  destroying_ = true;
  worker_->RemovePoller(this);
  worker_->RemoveStatsProvider(this);
  if (state_ == State::kIdle) return;
  leaving_ = true;
  if (!ending_) end_status_ = absl::CancelledError("the client is gone");
  TakeDown();
}

bool Client::Collect(const StatsQuery& query, Stats* stats) {
  return rpcrdma::Collect(query, "client", connected() ? 1 : 0, counters_, stats);
}

absl::Status Client::Connect(const SocketAddress& server,
                             absl::AnyInvocable<void(absl::Status)> on_connected,
                             absl::AnyInvocable<void(absl::Status)> on_ended) {
  // Callbacks of the destructor may try: CM would call a client that no longer exists.
  if (destroying_) return absl::FailedPreconditionError("the client is being destroyed");
  if (state_ != State::kIdle) {
    return absl::FailedPreconditionError(
        absl::StrCat("there is a connection to ", ToString(server_), " already"));
  }
  server_ = server;
  established_ = leaving_ = ending_ = false;
  tries_ = 0;
  if (absl::Status status = StartConnecting(); !status.ok()) return status;
  on_connected_ = std::move(on_connected);
  on_ended_ = std::move(on_ended);
  return absl::OkStatus();
}

// On error there is nothing to take down.
absl::Status Client::StartConnecting() {
  auto id = manager_->CreateId(RDMA_PS_TCP, [this](const cm::Event& event) { OnEvent(event); });
  if (!id.ok()) return id.status();
  id_ = *id;
  state_ = State::kResolving;
  wakeup().Wake();
  if (absl::Status s = manager_->ResolveAddr(id_, server_, config_.resolve_timeout_ms); !s.ok()) {
    End(absl::UnavailableError(
        absl::StrCat("connecting to ", ToString(server_), ": ", s.message())));
  }
  return absl::OkStatus();
}

void Client::OnEvent(const cm::Event& event) {
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (absl::Status s = manager_->ResolveRoute(id_, config_.resolve_timeout_ms); !s.ok()) End(s);
      break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      OnRouteResolved();
      break;
    case RDMA_CM_EVENT_ESTABLISHED:
      OnEstablished(event);
      break;
    case RDMA_CM_EVENT_DISCONNECTED:
      End(absl::UnavailableError(
          state_ == State::kDisconnecting ? "disconnected" : "the server ended the connection"));
      break;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      // There is nothing left to connect again over.
      leaving_ = true;
      End(absl::UnavailableError("the network interface is gone"));
      break;
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
      End(Failed(server_, event));
      break;
    default:
      break;
  }
}

void Client::OnRouteResolved() {
  ConnectionConfig config;
  const Shares shares = SharesOf(config_.credits, config_.reverse_credits);
  config.receives = shares.receives;
  config.send_buffers = shares.forward.count + shares.reverse.count;
  config.send_queue = config.send_buffers;
  config.send_bytes = config_.send_bytes;
  config.receive_bytes = config_.receive_bytes;
  config.remote_invalidation = config_.remote_invalidation;
  auto connection = Connection::Create(worker_, &wakeup(), config, [this](ibv_event_type event) {
    if (id_ != nullptr) manager_->Notify(id_, event);
  });
  if (!connection.ok()) return End(connection.status());
  link_.connection = *std::move(connection);
  link_.connection->refusals().ReportTo(&refusal_log_, server_);
  state_ = State::kBinding;
  const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  manager_->BindQp(id_, worker_, link_.connection->qp(), access,
                   [this](absl::Status status) { OnBound(status); });
}

void Client::OnBound(const absl::Status& status) {
  if (!status.ok()) return End(status);
  // RFC 8166 section 3.3.1: receives first.
  if (absl::Status posted = link_.connection->PostReceives(); !posted.ok()) return End(posted);
  const auto data = EncodePrivateData(link_.connection->LocalPrivateData());
  cm::ConnectionParam param = config_.connection;
  param.private_data = data;
  state_ = State::kConnecting;
  if (absl::Status s = manager_->Connect(id_, param); !s.ok()) End(s);
}

void Client::OnEstablished(const cm::Event& event) {
  // RFC 8797 section 4: settings are those of this connection alone.
  negotiated_ = Negotiate(link_.connection->LocalPrivateData(), /*local_is_client=*/true,
                          event.param.private_data);
  state_ = State::kConnected;
  retry_timer_.Cancel();
  wakeup().Wake();
  connected_at_ns_ = worker_->now_ns();
  link_.connection->WatchPeer();
  ++counters_.connections_established;
  if (!established_) {
    established_ = true;
    const ReconnectPolicy& policy = config_.reconnect;
    const uint64_t silence_ms = policy.attempts > 0 ? policy.silence_ms : 0;
    requester_ = std::make_unique<Requester>(worker_, &binding_,
                                             RequesterConfig{.credits = config_.credits,
                                                             .max_calls = config_.max_calls,
                                                             .max_losses = policy.attempts + 1,
                                                             .silence_ns = silence_ms * 1'000'000,
                                                             .earlier_calls = earlier_calls_,
                                                             .credential = config_.credential},
                                             &counters_);
  } else {
    ++counters_.reconnects;
  }
  const Shares shares = SharesOf(config_.credits, config_.reverse_credits);
  // RFC 8167 section 2.4.1 and section 4.1: what answers the server has XIDs and credits of its
  // own.
  link_.responder =
      std::make_unique<Responder>(link_.connection.get(),
                                  ServiceState{.programs = &programs_,
                                               .replies = &replies_,
                                               .lost = &lost_,
                                               .credits = &config_.reverse_credits,
                                               .counters = &counters_},
                                  Responder::Caller{.address = server_.address}, shares.reverse);
  link_.responder->SetTerms(ReverseTerms(negotiated_));
  link_.demux = std::make_unique<MessageDemux>(Direction::kReply, link_.responder.get(),
                                               shares.reverse, requester_.get());
  requester_->Attach(link_.connection.get(), ForwardTerms(negotiated_), shares.forward);
  if (on_connected_) std::exchange(on_connected_, nullptr)(absl::OkStatus());
}

void Client::Disconnect() {
  if (state_ == State::kIdle || state_ == State::kDisconnecting) return;
  leaving_ = true;
  if (state_ != State::kConnected || !manager_->Disconnect(id_).ok()) {
    return End(absl::CancelledError("disconnected"));
  }
  state_ = State::kDisconnecting;
  wakeup().Wake();
}

absl::Status Client::Call(const oncrpc::CallRequest& request, oncrpc::CallDone done,
                          oncrpc::CallId* id) {
  if (!connected() || ending_) [[unlikely]] {
    const bool outlives = established_ && !leaving_ && config_.reconnect.attempts > 0;
    if (!outlives) return absl::UnavailableError("the client is not connected");
  }
  return requester_->Call(request, std::move(done), id);
}

void Client::End(absl::Status status) {
  if (ending_) return;
  ending_ = true;
  end_status_ = std::move(status);
  wakeup().Wake();
}

bool Client::Poll(uint64_t /*now_ns*/) {
  wakeup().Sleep();
  bool busy = false;
  if (state_ == State::kConnected || state_ == State::kDisconnecting) {
    link_.connection->wakeup().Sleep();
    busy = link_.connection->Poll(*link_.demux);
    busy |= link_.responder->Poll();
    // One that is being disconnected breaks at once; the answer to the DREQ ends it, since a
    // program that leaves before may take the DREQ with it.
    if (link_.connection->broken() && state_ == State::kConnected && !ending_) {
      const ibv_wc_status failure = link_.connection->failure();
      End(absl::UnavailableError(
          failure == IBV_WC_SUCCESS
              ? "the connection was given up: the counters connections_silent, connections_stalled "
                "and bad_invalidations show why"
              : absl::StrCat("the connection broke: ", ibv_wc_status_str(failure))));
    }
    // Calls need not wait for that answer: a queue pair in ERR touches nothing any more.
    if (state_ == State::kDisconnecting && link_.connection->qp()->state() == IBV_QPS_ERR) {
      requester_->FailAll(absl::UnavailableError("disconnected"));
    }
  }
  if (!ended_.empty()) [[unlikely]]
    std::erase_if(ended_, [](const Link& link) { return link.responder->idle(); });
  if (ending_ && state_ != State::kIdle) {
    TakeDown();
    busy = true;
  }
  if (!MaySleep()) wakeup().Wake();
  return busy;
}

bool Client::MaySleep() const {
  if (ending_ || !ended_.empty()) return false;
  if (state_ == State::kIdle || state_ == State::kPausing) return true;
  return state_ == State::kConnected && !link_.connection->wakeup().awake() &&
         !link_.connection->HasCompletions() && !link_.responder->HasWork();
}

void Client::TakeDown() {
  retry_timer_.Cancel();
  ending_ = false;
  // Says DREQ or REJ as the state asks.
  if (id_ != nullptr) manager_->DestroyId(std::exchange(id_, nullptr));
  if (link_.connection != nullptr) link_.connection->Close();
  if (requester_ != nullptr && requester_->attached()) {
    if (!leaving_) ++counters_.connections_lost;
    const uint64_t lasted_ms = (worker_->now_ns() - connected_at_ns_) / 1'000'000;
    if (requester_->replies_on_connection() > 0 || lasted_ms >= config_.reconnect.max_delay_ms) {
      tries_ = 0;
    }
  }
  if (!TryAgain()) Finish();
}

bool Client::TryAgain() {
  if (!established_ || leaving_ || tries_ >= config_.reconnect.attempts) return false;
  const uint64_t now_ns = worker_->now_ns();
  if (tries_ == 0) {
    const uint64_t total_ns = config_.reconnect.max_total_ms * uint64_t{1'000'000};
    give_up_ns_ = total_ns == 0 ? UINT64_MAX : now_ns + total_ns;
  }
  if (now_ns >= give_up_ns_) return false;
  // The pause comes before the calls are told: what they do then finds a client that reconnects.
  state_ = State::kPausing;
  const uint64_t longest_ms =
      std::min<uint64_t>(config_.reconnect.max_delay_ms,
                         uint64_t{config_.reconnect.first_delay_ms} << std::min(tries_, 20u));
  ++tries_;
  const uint64_t longest_ns = longest_ms * 1'000'000;
  const uint64_t delay_ns = longest_ns - worker_->random().Below(longest_ns / 2 + 1);
  worker_->wheel().Arm(retry_timer_, std::min(now_ns + delay_ns, give_up_ns_));
  if (requester_->attached()) requester_->Detach(end_status_);
  Drop(std::exchange(link_, {}));
  return true;
}

void Client::OnRetry(void* client, uint64_t now_ns) {
  auto& self = *static_cast<Client*>(client);
  if (now_ns >= self.give_up_ns_) {
    return self.End(absl::UnavailableError(
        absl::StrFormat("reconnecting to %s: no success within %g s", ToString(self.server_),
                        self.config_.reconnect.max_total_ms / 1000.0)));
  }
  if (absl::Status status = self.StartConnecting(); !status.ok()) {
    return self.End(std::move(status));
  }
  if (self.give_up_ns_ != UINT64_MAX) {
    self.worker_->wheel().Arm(self.retry_timer_, self.give_up_ns_);
  }
}

// The queue pair is closed, and the requester has taken its memory back. What replies lent is given
// back, to users who may call anything.
void Client::Drop(Link link) {
  if (link.responder == nullptr) return;
  link.responder->Abort();
  if (!link.responder->idle()) ended_.push_back(std::move(link));
}

void Client::Finish() {
  state_ = State::kDisconnecting;  // what callers do in between finds no connection
  if (requester_ != nullptr) requester_->FailAll(end_status_);
  auto connected = std::exchange(on_connected_, nullptr);
  auto ended = std::exchange(on_ended_, nullptr);
  const absl::Status status = std::exchange(end_status_, absl::OkStatus());
  const bool was_established = std::exchange(established_, false);
  state_ = State::kIdle;
  if (requester_ != nullptr) earlier_calls_ = requester_->calls_made();
  requester_.reset();
  Drop(std::exchange(link_, {}));
  if (was_established) {
    if (ended) ended(status);
  } else if (connected) {
    connected(status);
  }
}

}  // namespace pollux::rpcrdma
