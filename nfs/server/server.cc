#include "nfs/server/server.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nfs/procedures/failed_results.h"
#include "nfs/v3/handle.h"

namespace pollux::nfs {
namespace {

// Twice what the calls of all exports hold when all of them stall, since one client may have half.
// None takes memory before it is used.
constexpr uint32_t kBulkBuffersOfExport = 2 * Storage::kMaxJobs;
constexpr uint32_t kMaxBulkBuffers = 1024;
constexpr uint32_t kCachedRepliesPerConnection = 8;

uint32_t BulkBuffers(size_t exports) {
  return static_cast<uint32_t>(std::min<size_t>(exports * kBulkBuffersOfExport, kMaxBulkBuffers));
}

}  // namespace

Server::Server(engine::Worker* worker, ServedExports* exports, ServerOptions options)
    : worker_(worker), exports_(exports), options_(std::move(options)) {
  Serve(*exports_->table());
  OfferTopic();
  worker_->AddPoller(this);
  worker_->AddStatsProvider(this);
}

Server::~Server() {
  worker_->RemoveStatsProvider(this);
  worker_->RemovePoller(this);
}

Server::Lane& Server::LaneFor(ServedExport* served) {
  for (Lane& lane : lanes_) {
    if (lane.served == served) return lane;
  }
  Lane& lane = lanes_.emplace_back();
  lane.served = served;
  Call::Owner* const owner = this;
  for (uint32_t i = 0; i < Storage::kMaxJobs; ++i) {
    lane.calls.push_back(std::make_unique<Call>(owner, served, exports_->verifier()));
    lane.free.push_back(lane.calls.back().get());
  }
  return lane;
}

void Server::Serve(const ExportTable& table) {
  for (Lane& lane : lanes_) lane.current = nullptr;
  for (const ExportEntry& entry : table) {
    Lane& lane = LaneFor(entry.served);
    lane.current = &lane.opened.emplace_back(Opened{.tree = entry.tree});
  }
  for (Lane& lane : lanes_) {
    CloseUnused(lane);
    if (lane.current != nullptr) continue;
    for (Waiting& waiting : std::exchange(lane.waiting, {})) {
      --busy_;
      Refuse(waiting.view, std::move(waiting.reply), Nfsstat3::kStale);
    }
  }
}

// Closes no files: ServedExports has each tree, too, until TakeUnused().
void Server::CloseUnused(Lane& lane) {
  std::erase_if(lane.opened,
                [&](const Opened& opened) { return opened.calls == 0 && &opened != lane.current; });
}

absl::StatusOr<std::unique_ptr<Server>> Server::Listen(engine::Worker* worker, cm::Manager* manager,
                                                       ServedExports* exports,
                                                       ServerOptions options) {
  std::unique_ptr<Server> server(new Server(worker, exports, std::move(options)));
  if (absl::Status status = server->Start(manager); !status.ok()) return status;
  return server;
}

absl::Status Server::Start(cm::Manager* manager) {
  rpcrdma::ServerConfig config;
  config.max_connections = options_.max_connections;
  config.max_connections_per_client = options_.max_connections_per_client;
  // When a link fails, each client may repeat its last calls on new connections.
  config.cached_replies =
      std::clamp(options_.max_connections * kCachedRepliesPerConnection, 1024u, 65'536u);
  config.bulk_buffers = BulkBuffers(std::max(options_.max_exports, lanes_.size()));
  auto rpc = rpcrdma::Server::Create(worker_, manager, config);
  if (!rpc.ok()) return rpc.status();
  rpc_ = *std::move(rpc);
  if (absl::Status status = rpc_->RegisterProgram(MakeProgram()); !status.ok()) return status;
  if (absl::Status status = rpc_->RegisterProgram(MakeAclProgram()); !status.ok()) return status;
  if (options_.log != nullptr) {
    rpc_->SetObserver([this](const rpcrdma::Server::ConnectionInfo& info, bool established) {
      LogConnection(info, established);
    });
  }
  if (options_.log_refusal != nullptr) {
    rpc_->SetRefusalLog([this](const std::string& line) { options_.log_refusal(line); });
  }
  return rpc_->Listen(options_.port);
}

rpcrdma::Program Server::MakeProgram() {
  rpcrdma::Program program{.binding = Nfs3Binding(), .procedures = {}};
  for (const oncrpc::ProcedureBinding& procedure : program.binding.procedures) {
    program.procedures.push_back(
        {.number = procedure.number,
         .handler = [this](const rpcrdma::CallView& view, rpcrdma::ReplyHandle reply) {
           Handle(view, std::move(reply));
         }});
  }
  return program;
}

rpcrdma::Program Server::MakeAclProgram() {
  rpcrdma::Program program;
  program.binding = {.program = kNfsAclProgram,
                     .version = kNfsAclV3,
                     .procedures = {},
                     .others = oncrpc::ProcedureBinding{.idempotent = true}};
  program.others = [this](const rpcrdma::CallView& view, rpcrdma::ReplyHandle reply) {
    ++counters_.acl_calls;
    if (options_.log != nullptr && acl_lines_.Take(worker_->now_ns())) {
      const SocketAddress client{.address = view.client_address, .port = view.client_port};
      options_.log(absl::StrCat(ToString(client), " requests POSIX ACLs (NFS_ACL, program ",
                                kNfsAclProgram,
                                "), which are not supported; it continues without them"));
    }
    reply.Fail(oncrpc::AcceptStatus::kProgramUnavailable);
  };
  return program;
}

void Server::LogConnection(const rpcrdma::Server::ConnectionInfo& info, bool established) {
  if (!established && options_.has_failed != nullptr && options_.has_failed(info.peer)) return;
  if (!connection_lines_.Take(info.peer.address, worker_->now_ns())) return;
  const std::string peer = ToString(info.peer);
  std::string line =
      established ? absl::StrFormat("%s connected, inline %u in, %u out, %s RFC 8797 private data",
                                    peer, info.negotiated.thresholds.client_to_server,
                                    info.negotiated.thresholds.server_to_client,
                                    info.negotiated.peer_sent ? "sent" : "sent no")
                  : absl::StrCat(peer, " gone");
  if (const uint64_t left_out = connection_lines_.TakeLeftOut(); left_out > 0) {
    absl::StrAppend(&line, " (", left_out,
                    " lines about connections were left out before this one)");
  }
  options_.log(line);
}

// Every procedure's arguments begin with a handle.
Server::Lane* Server::LaneOf(const rpcrdma::CallView& view, Nfsstat3* status) {
  const uint64_t id = ClaimedExport(view.reader().Opaque(kFhsize3));
  for (Lane& lane : lanes_) {
    if (lane.current != nullptr && lane.current->tree->id() == id) return &lane;
  }
  *status = id == 0 ? Nfsstat3::kBadhandle : Nfsstat3::kStale;
  return nullptr;
}

void Server::Handle(const rpcrdma::CallView& view, rpcrdma::ReplyHandle reply) {
  if (view.header.procedure == static_cast<uint32_t>(Procedure::kNull)) {
    ++counters_.Of(Procedure::kNull).calls;
    if (view.reader().AtEnd()) return reply.Send({});
    ++counters_.Of(Procedure::kNull).failures;
    return reply.Fail(oncrpc::AcceptStatus::kGarbageArguments);
  }
  Nfsstat3 status = Nfsstat3::kOk;
  Lane* const found = LaneOf(view, &status);
  if (found == nullptr) return Refuse(view, std::move(reply), status);
  ++busy_;
  Lane& lane = *found;
  if (!lane.free.empty() && lane.waiting.empty() && !stopped_) {
    return Begin(lane, view, std::move(reply));
  }
  if (lane.stalls) return PutOff(view, std::move(reply));
  ++counters_.waited;
  lane.waiting.push_back({view, std::move(reply), worker_->now_ns()});
}

// Of calls that have not run: one that must not run twice may come again, as another call.
void Server::PutOff(const rpcrdma::CallView& view, rpcrdma::ReplyHandle reply) {
  --busy_;
  ++counters_.put_off;
  Refuse(view, std::move(reply), Nfsstat3::kJukebox);
}

void Server::Refuse(const rpcrdma::CallView& view, rpcrdma::ReplyHandle reply, Nfsstat3 status) {
  const auto procedure = static_cast<Procedure>(view.header.procedure);
  Counters::OfProcedure& counters = counters_.Of(procedure);
  ++counters.calls;
  ++counters.failures;
  FailedResultsSpace space;
  reply.Send(EncodeFailedResults(procedure, status, &space));
}

void Server::Begin(Lane& lane, const rpcrdma::CallView& view, rpcrdma::ReplyHandle reply) {
  Call* const call = lane.free.back();
  lane.free.pop_back();
  ++lane.current->calls;
  call->Start(view, std::move(reply), lane.current->tree.get());
}

void Server::PostDone(Call* call) {
  engine::Actor::Post(*worker_, [this, call] { Reply(call); });
}

void Server::PostPart(Call* call) {
  engine::Actor::Post(*worker_,
                      [this, call] { call->WriteAhead([this, call] { Release(call); }); });
}

void Server::Reply(Call* call) {
  --busy_;
  const Call::Outcome& outcome = call->outcome();
  Counters::OfProcedure& counters = counters_.Of(call->procedure());
  ++counters.calls;
  const bool authenticated = outcome.authenticated == oncrpc::AuthStatus::kOk;
  const bool accepted = outcome.accepted == oncrpc::AcceptStatus::kSuccess;
  if (!authenticated || !accepted || outcome.status != Nfsstat3::kOk) ++counters.failures;
  (call->procedure() == Procedure::kRead ? counters_.bytes_read : counters_.bytes_written) +=
      outcome.moved_bytes;
  counters_.bytes_ahead += call->ahead_bytes();
  rpcrdma::ReplyHandle reply = call->TakeReply();
  if (!authenticated) {
    reply.Send({.denied = true,
                .reject_status = oncrpc::RejectStatus::kAuthError,
                .auth_status = static_cast<uint32_t>(outcome.authenticated)},
               {}, {});
  } else if (!accepted) {
    reply.Fail(outcome.accepted);
  } else if (outcome.item.has_value()) {
    rpcrdma::ResultItem item{.bytes = outcome.item->bytes.subspan(call->ahead_bytes()),
                             .position = outcome.item->position};
    item.release = [this, call] { Release(call); };
    return reply.Send(outcome.results, std::move(item));
  } else {
    reply.Send(outcome.results);
  }
  Release(call);
}

void Server::Release(Call* call) {
  if (call->Release()) Free(call);
}

void Server::Free(Call* call) {
  for (Lane& lane : lanes_) {
    if (lane.served != call->served()) continue;
    lane.free.push_back(call);
    lane.stalls = false;
    const auto opened = std::ranges::find(lane.opened, call->tree(),
                                          [](const Opened& one) { return one.tree.get(); });
    if (--opened->calls == 0) CloseUnused(lane);
  }
}

bool Server::MoveOn(Lane& lane) {
  if (lane.waiting.empty() || stopped_) return false;
  const bool may_begin = !lane.free.empty();
  if (!may_begin && worker_->now_ns() - lane.waiting.front().since_ns < kMaxWaitNs) return false;
  auto [view, reply, since_ns] = std::move(lane.waiting.front());
  lane.waiting.pop_front();
  if (may_begin) {
    Begin(lane, view, std::move(reply));
  } else {
    lane.stalls = true;
    PutOff(view, std::move(reply));
  }
  return true;
}

bool Server::Poll(uint64_t) {
  bool moved = false;
  for (Lane& lane : lanes_) {
    while (MoveOn(lane)) moved = true;
  }
  return moved;
}

void Server::StopTakingCalls() {
  stopped_ = true;
  rpc_->StopTakingCalls();
}

size_t Server::waiting() const {
  size_t waiting = 0;
  for (const Lane& lane : lanes_) waiting += lane.waiting.size();
  return waiting;
}

void Server::Shutdown() {
  rpc_->Shutdown();
  // Run now, they would run again when their clients send them to the next server.
  for (Lane& lane : lanes_) {
    busy_ -= lane.waiting.size();
    lane.waiting.clear();
  }
}

bool Server::Collect(const StatsQuery& query, Stats* stats) {
  if (query.topic != "nfs") return false;
  counters_.Collect(stats);
  stats->Count("busy", busy_);
  return true;
}

}  // namespace pollux::nfs
