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
  for (const auto& [number, peer] : by_number_) TakeDown(*peer);
}

bool Server::Collect(const StatsQuery& query, Stats* stats) {
  return rpcrdma::Collect(query, "server", connections(), counters_, stats);
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
  stopped_ = false;
  manager_->SetMaxHalfOpen(listener_, std::max(config_.max_half_open, 1u));
  return absl::OkStatus();
}

void Server::OnEvent(const cm::Event& event) {
  if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) return OnConnectRequest(event);
  const auto found = by_id_.find(event.id);
  if (found == by_id_.end()) return;
  Peer* const peer = found->second;
  switch (event.type) {
    case RDMA_CM_EVENT_ESTABLISHED:
      OnEstablished(*peer);
      break;
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      BeginEnding(*peer);
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
    BeginEnding(peer);
    return;
  }
  peer.state = Peer::State::kConnected;
  peer.established = true;
  peer.counted = true;
  ++established_;
  ++clients_[peer.info.peer.address].established;
  peer.connection->WatchPeer();
  ++counters_.connections_established;
  if (observer_) observer_(peer.info, true);
}

absl::Status Server::Equip(Peer& peer) {
  if (absl::Status status = peer.connection->Complete(); !status.ok()) return status;
  const SocketAddress& client = peer.info.peer;
  peer.responder = std::make_unique<Responder>(
      peer.connection.get(),
      ServiceState{.programs = &programs_,
                   .replies = &replies_,
                   .lost = &lost_,
                   .stalled = &stalled_,
                   .credits = &credits_,
                   .counters = &counters_},
      Responder::Caller{client.address, client.port, peer.info.number, ShareOf(client.address)},
      SharesOf(config_.credits, config_.reverse_credits).forward);
  peer.responder->SetTerms(ForwardTerms(peer.info.negotiated));
  return peer.responder->Init();
}

absl::Status Server::CheckRoom(const Gid& address) const {
  const size_t used = established_ + lingering_;
  if (used >= config_.max_connections) {
    std::string limit =
        absl::StrFormat("the limit of %d connections is reached", config_.max_connections);
    if (lingering_ != 0) {
      absl::StrAppendFormat(&limit, "; %d of them have ended, but their calls are still executed",
                            lingering_);
    }
    return absl::ResourceExhaustedError(limit);
  }
  const auto client = clients_.find(address);
  const size_t of_client = client == clients_.end() ? 0 : client->second.established;
  const size_t lingering_of_client = client == clients_.end() ? 0 : client->second.lingering;
  const size_t share = config_.max_connections_per_client != 0 ? config_.max_connections_per_client
                                                               : config_.max_connections - used;
  // As many again may linger: a client whose call hangs in a handler must be able to connect again.
  if (of_client < share && of_client + lingering_of_client < 2 * share) return absl::OkStatus();
  if (of_client < share) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "calls of %d ended connections of its address are still executed", lingering_of_client));
  }
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
  Group& group = GroupWithRoom();
  auto connection =
      Connection::Create(worker_, &group.wakeup, config, [this, raw](ibv_event_type type) {
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
  by_number_.emplace(raw->info.number, raw);
  by_id_.emplace(raw->id, raw);
  ++clients_[raw->info.peer.address].peers;
  group.peers.push_back(std::move(peer));
  // No region of this side can be written from afar; that the queue pair takes RDMA WRITEs lets a
  // client ask, by one of no bytes, whether it lives.
  manager_->BindQp(event.id, worker_, raw->connection->qp(),
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
                   [this, raw, param](absl::Status status) mutable {
                     if (status.ok()) status = raw->connection->PostReceives();
                     const auto data = EncodePrivateData(raw->connection->LocalPrivateData());
                     param.private_data = data;
                     if (status.ok()) status = manager_->Accept(raw->id, param);
                     // FailedPrecondition: the client has given up meanwhile.
                     if (!status.ok() && !absl::IsFailedPrecondition(status)) {
                       Refuse(raw->info.peer, status);
                     }
                     raw->state = status.ok() ? Peer::State::kAccepting : Peer::State::kEnding;
                   });
  return absl::OkStatus();
}

Server::Group& Server::GroupWithRoom() {
  for (const auto& group : groups_) {
    if (group->peers.size() < kPeersPerGroup) return *group;
  }
  return *groups_.emplace_back(std::make_unique<Group>(&wakeup()));
}

std::shared_ptr<BufferShare> Server::ShareOf(const Gid& address) {
  std::shared_ptr<BufferShare>& share = clients_[address].buffers;
  if (share == nullptr) share = std::make_shared<BufferShare>(&pool_, stalled_.Until(address));
  return share;
}

Server::Peer* Server::FindConnected(uint64_t number) {
  const auto found = by_number_.find(number);
  if (found == by_number_.end() || found->second->state != Peer::State::kConnected) return nullptr;
  return found->second;
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
  // Until they go through its MessageDemux.
  peer->connection->HoldMessages();
  return absl::OkStatus();
}

absl::Status Server::CallReverse(uint64_t connection, const oncrpc::CallRequest& request,
                                 oncrpc::CallDone done) {
  Peer* peer = FindConnected(connection);
  // RFC 8167 section 6: not before OpenReverse() says that the client is prepared.
  if (peer == nullptr || peer->reverse == nullptr) {
    return absl::NotFoundError(
        "the client's connection is gone, or not open for calls to the client");
  }
  return peer->reverse->requester->Call(request, std::move(done));
}

void Server::SetCredits(uint32_t credits) { credits_ = std::clamp(credits, 1u, config_.credits); }

void Server::StopTakingCalls() {
  stopped_ = true;
  for (const auto& [number, peer] : by_number_) peer->connection->HoldMessages();
  if (listener_ != nullptr) manager_->DestroyId(std::exchange(listener_, nullptr));
}

size_t Server::calls_in_progress() const {
  size_t calls = 0;
  for (const auto& [number, peer] : by_number_) {
    if (peer->responder != nullptr) calls += peer->responder->calls();
  }
  return calls;
}

void Server::Shutdown() {
  if (listener_ != nullptr) manager_->DestroyId(std::exchange(listener_, nullptr));
  for (const auto& [number, peer] : by_number_) {
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
  if (sent) {
    peer.state = Peer::State::kDisconnecting;
  } else {
    BeginEnding(peer);
  }
  peer.connection->MarkBroken();
}

void Server::BeginEnding(Peer& peer) {
  peer.state = Peer::State::kEnding;
  peer.connection->HoldMessages();
  if (!std::exchange(peer.counted, false)) return;
  --established_;
  --clients_[peer.info.peer.address].established;
}

bool Server::Poll(uint64_t /*now_ns*/) {
  wakeup().Sleep();
  bool busy = false;
  const bool takes_calls = !stopped_ && !MemoryReserve::IsLow();
  for (size_t i = 0; i < groups_.size(); ++i) {
    Group& group = *groups_[i];
    if (!group.wakeup.awake()) continue;
    busy |= PollGroup(group, takes_calls);
    if (group.wakeup.awake()) wakeup().Wake();
  }
  // Looking refills the reserve.
  if (MemoryReserve::IsLow()) wakeup().Wake();
  return busy;
}

bool Server::PollGroup(Group& group, bool takes_calls) {
  group.wakeup.Sleep();
  bool busy = false;
  bool gone = false;
  bool is_one_awake = false;
  for (size_t i = 0; i < group.peers.size(); ++i) {
    Peer& peer = *group.peers[i];
    if (!peer.connection->wakeup().awake()) {
      assert(!PollPeer(peer, takes_calls) && "a connection that is asleep has work");
      continue;
    }
    busy |= PollPeer(peer, takes_calls);
    gone |= peer.IsGone();
    is_one_awake |= peer.connection->wakeup().awake();
  }
  if (is_one_awake) group.wakeup.Wake();
  if (gone) RemoveGone(group);
  return busy || gone;
}

void Server::RemoveGone(Group& group) {
  std::erase_if(group.peers, [this](const std::unique_ptr<Peer>& peer) {
    if (!peer->IsGone()) return false;
    by_number_.erase(peer->info.number);
    const auto client = clients_.find(peer->info.peer.address);
    if (peer->lingers) {
      --lingering_;
      --client->second.lingering;
    }
    if (--client->second.peers == 0) clients_.erase(client);
    return true;
  });
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
    if (peer.reverse != nullptr) peer.reverse->requester->Poll();
  }
  if (peer.connection->broken() && peer.state != kEnded && peer.state != kDisconnecting) {
    BeginEnding(peer);
  }
  if (peer.state == kEnding) {
    TakeDown(peer);
    busy = true;
  }
  const bool may_sleep =
      peer.state == kConnected && !peer.connection->HasCompletions() && !peer.responder->HasWork();
  if (!may_sleep) wakeup.Wake();
  return busy;
}

void Server::TakeDown(Peer& peer) {
  if (peer.state == Peer::State::kEnded) return;
  BeginEnding(peer);
  peer.state = Peer::State::kEnded;
  by_id_.erase(peer.id);
  // Says DREQ or REJ as the state asks.
  manager_->DestroyId(std::exchange(peer.id, nullptr));
  peer.connection->Close();
  if (peer.reverse != nullptr) {
    peer.reverse->requester->FailAll(absl::UnavailableError("the client's connection ended"));
  }
  if (peer.responder != nullptr) peer.responder->Abort();
  if (!peer.IsGone()) {
    // Its memory is still used: a client must not be able to multiply it by connecting again.
    peer.lingers = true;
    ++lingering_;
    ++clients_[peer.info.peer.address].lingering;
  }
  if (!peer.established) return;
  if (!peer.asked) ++counters_.connections_lost;
  if (observer_) observer_(peer.info, false);
}

}  // namespace pollux::rpcrdma
