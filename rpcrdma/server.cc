#include "rpcrdma/server.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_format.h"
#include "rpcrdma/connection/settings.h"
#include "rpcrdma/connection/stats.h"
#include "stack/base/memory_reserve.h"

namespace pollux::rpcrdma {
namespace {

// Room for the largest reply (every Write segment and the message), and for the READs of the
// largest call. Either may wait until all the others are done.
constexpr uint32_t kSendQueue = 512;
static_assert(kSendQueue > kMaxWriteSegments && kSendQueue >= kMaxReadSegments);
// RFC 8166 section 3.3.3: before it knows its grant a client sends one call. And a message that is
// none.
constexpr uint32_t kFirstReceives = 2;
constexpr uint32_t kReverseCallsPerCredit = 16;  // outstanding and waiting
// 4 GiB at the very most.
constexpr uint32_t kMaxCachedReplies = 1u << 20;
constexpr uint32_t kMaxCachedReplyBytes = 4096;

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Create(engine::Worker* worker, cm::Manager* manager,
                                                       const ServerConfig& config) {
  absl::Status status = CheckSettings(config.credits, config.reverse_credits, config.send_bytes,
                                      config.receive_bytes);
  if (!status.ok()) return status;
  // One call can need two: its arguments and its long reply.
  if (config.bulk_buffers < 2 || config.bulk_buffer_bytes < kMinInlineBytes ||
      config.bulk_buffer_bytes > oncrpc::kMaxItemBytes) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%d bulk buffers of %d bytes requested; at least 2 of %d to %d bytes are needed",
        config.bulk_buffers, config.bulk_buffer_bytes, kMinInlineBytes, oncrpc::kMaxItemBytes));
  }
  if (config.cached_replies == 0 || config.cached_replies > kMaxCachedReplies ||
      config.cached_reply_bytes > kMaxCachedReplyBytes) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "a cache of %d replies of %d bytes requested; it can have 1 to %d of at most %d bytes",
        config.cached_replies, config.cached_reply_bytes, kMaxCachedReplies, kMaxCachedReplyBytes));
  }
  std::unique_ptr<Server> server(new Server(worker, manager, config));
  worker->AddPoller(server.get());
  worker->AddStatsProvider(server.get());
  OfferTopic();
  return server;
}

Server::Server(engine::Worker* worker, cm::Manager* manager, const ServerConfig& config)
    : worker_(worker),
      manager_(manager),
      config_(config),
      credits_(config.credits),
      pool_(config.bulk_buffers, config.bulk_buffer_bytes),
      replies_(config.cached_replies, config.cached_reply_bytes) {}

Server::~Server() {
  worker_->RemovePoller(this);
  worker_->RemoveStatsProvider(this);
  if (listener_ != nullptr) manager_->DestroyId(listener_);
  for (auto& peer : peers_) TakeDown(*peer);
}

bool Server::Collect(const StatsQuery& query, Stats* stats) {
  return rpcrdma::Collect(query, "server", peers_.size(), counters_, stats);
}

absl::Status Server::RegisterProgram(Program program) { return programs_.Add(std::move(program)); }

absl::Status Server::Listen(uint16_t port) {
  auto id = manager_->CreateId(RDMA_PS_TCP, [this](const cm::Event& event) { OnEvent(event); });
  if (!id.ok()) return id.status();
  // The reply cache and the shares of the buffers are a client's, and outlive its connections.
  if (absl::Status status = manager_->Listen(*id, port, 0, cm::Placement::kByClient);
      !status.ok()) {
    manager_->DestroyId(*id);
    return status;
  }
  listener_ = *id;
  manager_->SetMaxHalfOpen(listener_, std::max(config_.max_half_open, 1u));
  return absl::OkStatus();
}

Server::Peer* Server::Find(const cm::Id* id) {
  for (auto& peer : peers_) {
    if (peer->id == id && id != nullptr) return peer.get();
  }
  return nullptr;
}

void Server::OnEvent(const cm::Event& event) {
  if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) return OnConnectRequest(event);
  Peer* peer = Find(event.id);
  if (peer == nullptr) return;
  switch (event.type) {
    case RDMA_CM_EVENT_ESTABLISHED:
      OnEstablished(*peer);
      break;
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      peer->state = Peer::State::kEnding;
      peer->connection->wakeup().Wake();
      break;
    default:
      break;
  }
}

void Server::OnConnectRequest(const cm::Event& event) {
  const absl::Status status = Admit(event);
  if (status.ok()) return;
  Refuse(event.id->peer(), status);
  manager_->Reject(event.id, {}).IgnoreError();
  manager_->DestroyId(event.id);
}

void Server::Refuse(const SocketAddress& client, const absl::Status& why) {
  ++counters_.connections_refused;
  refusal_log_.Write(client, absl::StrFormat("connection refused: %s", why.message()),
                     worker_->now_ns());
}

void Server::OnEstablished(Peer& peer) {
  // Others that were asked for at the same time may have taken the last place, or the memory.
  absl::Status status = CheckRoom(peer.info.peer.address);
  if (status.ok()) status = Equip(peer);
  if (!status.ok()) {
    Refuse(peer.info.peer, status);
    peer.state = Peer::State::kEnding;
    return;
  }
  peer.state = Peer::State::kConnected;
  peer.established = true;
  peer.connection->WatchPeer();
  ++counters_.connections_established;
  if (observer_) observer_(peer.info, true);
}

absl::Status Server::Equip(Peer& peer) {
  if (absl::Status status = peer.connection->Complete(); !status.ok()) return status;
  const SocketAddress& client = peer.info.peer;
  peer.buffers = ShareOf(client.address);
  peer.responder = std::make_unique<Responder>(
      peer.connection.get(),
      ServiceState{.programs = &programs_,
                   .replies = &replies_,
                   .lost = &lost_,
                   .stalled = &stalled_,
                   .credits = &credits_,
                   .counters = &counters_},
      Responder::Caller{client.address, client.port, peer.info.number, peer.buffers},
      SharesOf(config_.credits, config_.reverse_credits).forward);
  peer.responder->SetTerms(ForwardTerms(peer.info.negotiated));
  return peer.responder->Init();
}

size_t Server::Established() const {
  return static_cast<size_t>(std::ranges::count_if(
      peers_, [](const std::unique_ptr<Peer>& peer) { return peer->IsEstablished(); }));
}

absl::Status Server::CheckRoom(const Gid& client) const {
  const size_t established = Established();
  if (established >= config_.max_connections) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("the limit of %d connections is reached", config_.max_connections));
  }
  const auto of_client =
      static_cast<size_t>(std::ranges::count_if(peers_, [&](const std::unique_ptr<Peer>& peer) {
        return peer->IsEstablished() && peer->info.peer.address == client;
      }));
  const size_t share = config_.max_connections_per_client != 0
                           ? config_.max_connections_per_client
                           : config_.max_connections - established;
  if (of_client < share) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrFormat("its address has %d of %d connections, the most that one address may have",
                      of_client, config_.max_connections));
}

absl::Status Server::Admit(const cm::Event& event) {
  if (absl::Status room = CheckRoom(event.id->peer().address); !room.ok()) return room;
  auto peer = std::make_unique<Peer>();
  Peer* const raw = peer.get();
  ConnectionConfig config;
  const Shares shares = SharesOf(config_.credits, config_.reverse_credits);
  config.receives = shares.receives;
  config.first_receives = kFirstReceives;
  config.send_buffers = shares.forward.count + shares.reverse.count;
  config.send_queue = kSendQueue;
  config.send_bytes = config_.send_bytes;
  config.receive_bytes = config_.receive_bytes;
  config.remote_invalidation = config_.remote_invalidation;
  auto connection =
      Connection::Create(worker_, &wakeup(), config, [this, raw](ibv_event_type type) {
        if (raw->id != nullptr) manager_->Notify(raw->id, type);
      });
  if (!connection.ok()) return connection.status();
  peer->connection = *std::move(connection);
  peer->connection->refusals().ReportTo(&refusal_log_, event.id->peer());
  peer->info.number = ++last_number_;
  peer->id = event.id;
  peer->info.peer = event.id->peer();
  // RFC 8797 section 4: settings are those of this connection alone.
  peer->info.negotiated = Negotiate(peer->connection->LocalPrivateData(),
                                    /*local_is_client=*/false, event.param.private_data);
  cm::ConnectionParam param = config_.connection;
  param.initiator_depth = std::min(param.initiator_depth, event.param.initiator_depth);
  param.responder_resources = std::min(param.responder_resources, event.param.responder_resources);
  peers_.push_back(std::move(peer));
  // No region of this side can be written from afar; that the queue pair takes RDMA WRITEs lets a
  // client ask, by one of no bytes, whether it lives.
  manager_->BindQp(event.id, worker_, raw->connection->qp(),
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
                   [this, raw, param](absl::Status status) mutable {
                     if (status.ok()) status = raw->connection->PostReceives();
                     const auto data = EncodePrivateData(raw->connection->LocalPrivateData());
                     param.private_data = data;
                     if (status.ok()) status = manager_->Accept(raw->id, param);
                     raw->state = status.ok() ? Peer::State::kAccepting : Peer::State::kEnding;
                   });
  return absl::OkStatus();
}

std::shared_ptr<BufferShare> Server::ShareOf(const Gid& client) {
  for (auto& peer : peers_) {
    if (peer->info.peer.address == client && peer->buffers != nullptr) return peer->buffers;
  }
  return std::make_shared<BufferShare>(&pool_, stalled_.Until(client));
}

Server::Peer* Server::FindConnected(uint64_t number) {
  for (auto& peer : peers_) {
    if (peer->info.number == number && peer->state == Peer::State::kConnected) return peer.get();
  }
  return nullptr;
}

absl::Status Server::OpenReverse(uint64_t connection, oncrpc::ProgramBinding binding,
                                 const oncrpc::OpaqueAuth& credential) {
  // RFC 8167 section 7
  if (absl::Status status = binding.Validate(); !status.ok()) return status;
  if (credential.body.size() > oncrpc::kMaxAuthBytes) {
    return absl::InvalidArgumentError(
        absl::StrFormat("a credential of %d bytes; at most %d are allowed", credential.body.size(),
                        oncrpc::kMaxAuthBytes));
  }
  Peer* peer = FindConnected(connection);
  if (peer == nullptr) return absl::NotFoundError("the client's connection is gone");
  if (peer->reverse != nullptr) {
    return absl::AlreadyExistsError(
        absl::StrFormat("this connection carries calls of program %#x to the client already",
                        peer->reverse->binding.program));
  }
  auto reverse = std::make_unique<Reverse>();
  reverse->binding = std::move(binding);
  reverse->requester = std::make_unique<Requester>(
      worker_, &reverse->binding,
      RequesterConfig{.credits = config_.reverse_credits,
                      .max_calls = config_.reverse_credits * kReverseCallsPerCredit,
                      .credential = credential},
      &counters_);
  const Shares shares = SharesOf(config_.credits, config_.reverse_credits);
  reverse->demux = std::make_unique<MessageDemux>(Direction::kCall, peer->responder.get(),
                                                  shares.forward, reverse->requester.get());
  reverse->requester->Attach(peer->connection.get(), ReverseTerms(peer->info.negotiated),
                             shares.reverse);
  peer->reverse = std::move(reverse);
  return absl::OkStatus();
}

absl::Status Server::CallReverse(uint64_t connection, const oncrpc::CallRequest& request,
                                 oncrpc::CallDone done) {
  Peer* peer = FindConnected(connection);
  if (peer == nullptr || peer->reverse == nullptr) {
    return absl::NotFoundError(
        "the client's connection is gone, or not open for calls to the client");
  }
  return peer->reverse->requester->Call(request, std::move(done));
}

void Server::SetCredits(uint32_t credits) { credits_ = std::clamp(credits, 1u, config_.credits); }

void Server::Shutdown() {
  if (listener_ != nullptr) manager_->DestroyId(std::exchange(listener_, nullptr));
  for (auto& peer : peers_) {
    if (peer->state != Peer::State::kEnded) End(*peer);
  }
}

void Server::Disconnect(uint64_t connection) {
  Peer* const peer = FindConnected(connection);
  if (peer != nullptr) End(*peer);
}

void Server::End(Peer& peer) {
  peer.asked = true;
  const bool sent = peer.state == Peer::State::kConnected && manager_->Disconnect(peer.id).ok();
  peer.state = sent ? Peer::State::kDisconnecting : Peer::State::kEnding;
  peer.connection->MarkBroken();
}

bool Server::Poll(uint64_t /*now_ns*/) {
  wakeup().Sleep();
  bool busy = false;
  bool gone = false;
  bool is_one_awake = false;
  const bool takes_calls = !MemoryReserve::IsLow();
  for (size_t i = 0; i < peers_.size(); ++i) {
    Peer& peer = *peers_[i];
    if (!peer.connection->wakeup().awake()) {
      assert(!PollPeer(peer, takes_calls) && "a connection that is asleep has work");
      continue;
    }
    busy |= PollPeer(peer, takes_calls);
    gone |= peer.IsGone();
    is_one_awake |= peer.connection->wakeup().awake();
  }
  // Looking refills the reserve.
  if (is_one_awake || MemoryReserve::IsLow()) wakeup().Wake();
  if (!gone) return busy;
  std::erase_if(peers_, [](const std::unique_ptr<Peer>& peer) { return peer->IsGone(); });
  return true;
}

bool Server::PollPeer(Peer& peer, bool takes_calls) {
  using enum Peer::State;
  Wakeup& wakeup = peer.connection->wakeup();
  wakeup.Sleep();
  bool busy = false;
  if (peer.state == kConnected) {
    Connection::Role* role = peer.responder.get();
    if (peer.reverse != nullptr) role = peer.reverse->demux.get();
    busy = takes_calls ? peer.connection->Poll(*role) : peer.connection->PollSent(*role);
    busy |= peer.responder->Poll();
  }
  if (peer.connection->broken() && peer.state != kEnded && peer.state != kDisconnecting) {
    peer.state = kEnding;
  }
  if (peer.state == kEnding) {
    TakeDown(peer);
    busy = true;
  }
  const bool may_sleep =
      peer.state == kConnected && peer.connection->IsQuiet() && !peer.responder->HasWork();
  if (!may_sleep) wakeup.Wake();
  return busy;
}

void Server::TakeDown(Peer& peer) {
  if (peer.state == Peer::State::kEnded) return;
  peer.state = Peer::State::kEnded;
  // Says DREQ or REJ as the state asks.
  manager_->DestroyId(std::exchange(peer.id, nullptr));
  peer.connection->Close(manager_->time_wait_ns());
  if (peer.reverse != nullptr) {
    peer.reverse->requester->FailAll(absl::UnavailableError("the client's connection ended"));
  }
  if (peer.responder != nullptr) peer.responder->Abort();
  if (!peer.established) return;
  if (!peer.asked) ++counters_.connections_lost;
  if (observer_) observer_(peer.info, false);
}

}  // namespace pollux::rpcrdma
