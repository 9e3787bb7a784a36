#include "rpcrdma/client.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rpcrdma/settings.h"

namespace pollux::rpcrdma {
namespace {

absl::Status Failed(const cm::Endpoint& server, const cm::Event& event) {
  const std::string where = absl::StrCat("connecting to ", cm::ToString(server), ": ");
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
                                                       ProgramBinding binding,
                                                       const ClientConfig& config) {
  // RFC 8166 section 6
  if (absl::Status status = binding.Validate(); !status.ok()) return status;
  absl::Status status = CheckSettings(config.credits, config.send_bytes, config.receive_bytes);
  if (!status.ok()) return status;
  if (config.max_calls == 0 || config.credential.body.size() > kMaxAuthBytes) {
    return absl::InvalidArgumentError("max_calls is 0, or the credential longer than 400 bytes");
  }
  std::unique_ptr<Client> client(new Client(worker, manager, std::move(binding), config));
  worker->AddPoller(client.get());
  return client;
}

Client::Client(engine::Worker* worker, cm::Manager* manager, ProgramBinding binding,
               const ClientConfig& config)
    : worker_(worker), manager_(manager), binding_(std::move(binding)), config_(config) {}

Client::~Client() {
  worker_->RemovePoller(this);
  if (state_ == State::kIdle) return;
  if (!ending_) end_status_ = absl::CancelledError("the client is gone");
  TakeDown();
}

absl::Status Client::Connect(const cm::Endpoint& server,
                             absl::AnyInvocable<void(absl::Status)> on_connected,
                             absl::AnyInvocable<void(absl::Status)> on_ended) {
  if (state_ != State::kIdle) {
    return absl::FailedPreconditionError(
        absl::StrCat("there is a connection to ", cm::ToString(server_), " already"));
  }
  auto id = manager_->CreateId(RDMA_PS_TCP, [this](const cm::Event& event) { OnEvent(event); });
  if (!id.ok()) return id.status();
  id_ = *id;
  server_ = server;
  on_connected_ = std::move(on_connected);
  on_ended_ = std::move(on_ended);
  state_ = State::kResolving;
  ending_ = false;
  if (absl::Status s = manager_->ResolveAddr(id_, server, config_.resolve_timeout_ms); !s.ok()) {
    End(absl::UnavailableError(
        absl::StrCat("connecting to ", cm::ToString(server), ": ", s.message())));
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
  config.receives = config_.credits + kSpareReceives;
  config.send_buffers = 2 * config_.credits;
  config.send_queue = 2 * config_.credits;
  config.send_bytes = config_.send_bytes;
  config.receive_bytes = config_.receive_bytes;
  auto connection = Connection::Create(worker_, config, [this](ibv_event_type event) {
    if (id_ != nullptr) manager_->Notify(id_, event);
  });
  if (!connection.ok()) return End(connection.status());
  connection_ = *std::move(connection);
  state_ = State::kBinding;
  const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  manager_->BindQp(id_, worker_, connection_->qp(), access,
                   [this](absl::Status status) { OnBound(status); });
}

void Client::OnBound(const absl::Status& status) {
  if (!status.ok()) return End(status);
  // RFC 8166 section 3.3.1: receives first.
  if (absl::Status posted = connection_->PostReceives(); !posted.ok()) return End(posted);
  const auto data = EncodePrivateData(connection_->LocalPrivateData());
  cm::ConnectionParam param = config_.connection;
  param.private_data = data;
  state_ = State::kConnecting;
  if (absl::Status s = manager_->Connect(id_, param); !s.ok()) End(s);
}

void Client::OnEstablished(const cm::Event& event) {
  negotiated_ = Negotiate(connection_->LocalPrivateData(), /*local_is_client=*/true,
                          event.param.private_data);
  requester_ = std::make_unique<Requester>(connection_.get(), &binding_,
                                           RequesterConfig{.credits = config_.credits,
                                                           .max_calls = config_.max_calls,
                                                           .credential = config_.credential},
                                           negotiated_.thresholds, &counters_);
  state_ = State::kConnected;
  connection_->WatchPeer();
  ++counters_.connections_established;
  if (on_connected_) std::exchange(on_connected_, nullptr)(absl::OkStatus());
}

void Client::Disconnect() {
  if (state_ == State::kIdle || state_ == State::kDisconnecting) return;
  if (state_ != State::kConnected || !manager_->Disconnect(id_).ok()) {
    return End(absl::CancelledError("disconnected"));
  }
  state_ = State::kDisconnecting;
}

absl::Status Client::Call(const CallRequest& request, CallDone done) {
  if (state_ != State::kConnected || ending_) {
    return absl::UnavailableError("the client is not connected");
  }
  return requester_->Call(request, std::move(done));
}

void Client::End(absl::Status status) {
  if (ending_) return;
  ending_ = true;
  end_status_ = std::move(status);
}

bool Client::Poll(uint64_t /*now_ns*/) {
  bool busy = false;
  if (state_ == State::kConnected || state_ == State::kDisconnecting) {
    busy = connection_->Poll(*requester_);
    // One that is being disconnected breaks at once; the answer to the DREQ ends it, since a
    // program that leaves before may take the DREQ with it.
    if (connection_->broken() && state_ == State::kConnected && !ending_) {
      End(absl::UnavailableError(
          absl::StrCat("the connection broke: ", ibv_wc_status_str(connection_->failure()))));
    }
    // Calls need not wait for that answer: a queue pair in ERR touches nothing any more.
    if (state_ == State::kDisconnecting && connection_->qp()->state() == IBV_QPS_ERR) {
      requester_->FailAll(absl::UnavailableError("disconnected"));
    }
  }
  if (ending_ && state_ != State::kIdle) {
    TakeDown();
    busy = true;
  }
  return busy;
}

void Client::TakeDown() {
  const bool was_established = requester_ != nullptr;
  const bool asked = state_ == State::kDisconnecting;
  // Says DREQ or REJ as the state asks.
  manager_->DestroyId(std::exchange(id_, nullptr));
  if (connection_ != nullptr) connection_->Close(manager_->time_wait_ns());
  if (requester_ != nullptr) requester_->FailAll(end_status_);
  requester_.reset();
  connection_.reset();
  state_ = State::kIdle;
  ending_ = false;
  if (was_established && !asked) ++counters_.connections_lost;
  auto connected = std::exchange(on_connected_, nullptr);
  auto ended = std::exchange(on_ended_, nullptr);
  const absl::Status status = std::move(end_status_);
  if (was_established) {
    if (ended) ended(status);
  } else if (connected) {
    connected(status);
  }
}

}  // namespace pollux::rpcrdma
