#include "nfs/server/server.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nfs/handle.h"

namespace pollux::nfs {
namespace {

// Clients that write to a file system that stalls hold one each: there are some for the others.
constexpr uint32_t kBulkBuffers = 128;

}  // namespace

Server::Server(engine::Worker* worker, ServedExports* exports, ServerOptions options)
    : worker_(worker), exports_(exports), options_(std::move(options)) {
  Call::Owner* const owner = this;
  for (const auto& served : exports_->all()) {
    Lane& lane = lanes_.emplace_back();
    lane.served = served.get();
    for (uint32_t i = 0; i < Storage::kMaxJobs; ++i) {
      lane.calls.push_back(std::make_unique<Call>(owner, served.get(), exports_->verifier()));
      lane.free.push_back(lane.calls.back().get());
    }
  }
  OfferTopic();
  worker_->AddPoller(this);
  worker_->AddReporter(this);
}

Server::~Server() {
  worker_->RemoveReporter(this);
  worker_->RemovePoller(this);
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
  config.bulk_buffers = kBulkBuffers;
  auto rpc = rpcrdma::Server::Create(worker_, manager, config);
  if (!rpc.ok()) return rpc.status();
  rpc_ = *std::move(rpc);
  if (absl::Status status = rpc_->RegisterProgram(MakeProgram()); !status.ok()) return status;
  if (options_.log != nullptr) {
    rpc_->SetObserver([this](const rpcrdma::Server::ConnectionInfo& info, bool established) {
      LogConnection(info, established);
    });
  }
  return rpc_->Listen(options_.port);
}

rpcrdma::Program Server::MakeProgram() {
  rpcrdma::Program program{.binding = Nfs3Binding(), .procedures = {}};
  for (const rpcrdma::ProcedureBinding& procedure : program.binding.procedures) {
    program.procedures.push_back(
        {.number = procedure.number,
         .handler = [this](const rpcrdma::CallView& view, rpcrdma::ReplyHandle reply) {
           Handle(view, std::move(reply));
         }});
  }
  return program;
}

void Server::LogConnection(const rpcrdma::Server::ConnectionInfo& info, bool established) {
  const std::string peer = cm::ToString(info.peer);
  options_.log(established
                   ? absl::StrFormat("%s connected, inline %u in, %u out, %s RFC 8797 private data",
                                     peer, info.negotiated.thresholds.client_to_server,
                                     info.negotiated.thresholds.server_to_client,
                                     info.negotiated.peer_sent ? "sent" : "sent no")
                   : absl::StrCat(peer, " gone"));
}

// Every procedure's arguments begin with a handle. One that is of no export is the first export's
// to refuse.
Server::Lane& Server::LaneOf(const rpcrdma::CallView& view) {
  const uint64_t id = ClaimedExport(view.reader().Opaque(kFhsize3));
  for (Lane& lane : lanes_) {
    if (lane.served->tree->id() == id) return lane;
  }
  return lanes_.front();
}

void Server::Handle(const rpcrdma::CallView& view, rpcrdma::ReplyHandle reply) {
  if (view.header.procedure == static_cast<uint32_t>(Procedure::kNull)) {
    ++counters_.Of(Procedure::kNull).calls;
    if (view.reader().AtEnd()) return reply.Send({});
    ++counters_.Of(Procedure::kNull).failures;
    return reply.Fail(rpcrdma::AcceptStatus::kGarbageArguments);
  }
  ++busy_;
  Lane& lane = LaneOf(view);
  if (!lane.free.empty() && lane.waiting.empty()) return Begin(lane, view, std::move(reply));
  ++counters_.waited;
  lane.waiting.emplace_back(view, std::move(reply));
}

void Server::Begin(Lane& lane, const rpcrdma::CallView& view, rpcrdma::ReplyHandle reply) {
  Call* const call = lane.free.back();
  lane.free.pop_back();
  call->Start(view, std::move(reply));
}

void Server::PostDone(Call* call) {
  engine::Party::Post(*worker_, [this, call] { Answer(call); });
}

void Server::Answer(Call* call) {
  --busy_;
  const Call::Outcome& outcome = call->outcome();
  Counters::OfProcedure& counters = counters_.Of(call->procedure());
  ++counters.calls;
  const bool authenticated = outcome.authenticated == AuthStatus::kOk;
  const bool accepted = outcome.accepted == rpcrdma::AcceptStatus::kSuccess;
  if (!authenticated || !accepted || outcome.status != Nfsstat3::kOk) ++counters.failures;
  (call->procedure() == Procedure::kRead ? counters_.bytes_read : counters_.bytes_written) +=
      outcome.moved_bytes;
  rpcrdma::ReplyHandle reply = call->TakeReply();
  if (!authenticated) {
    reply.Send({.denied = true,
                .reject_status = rpcrdma::RejectStatus::kAuthError,
                .auth_status = static_cast<uint32_t>(outcome.authenticated)},
               {}, {});
  } else if (!accepted) {
    reply.Fail(outcome.accepted);
  } else if (outcome.item.has_value()) {
    rpcrdma::ResultItem item{.bytes = outcome.item->bytes, .position = outcome.item->position};
    item.release = [this, call] { Free(call); };
    return reply.Send(outcome.results, std::move(item));
  } else {
    reply.Send(outcome.results);
  }
  Free(call);
}

void Server::Free(Call* call) {
  for (Lane& lane : lanes_) {
    if (lane.served != call->served()) continue;
    lane.free.push_back(call);
    // From the poll: a call may be freed in the middle of anything.
    freed_ |= !lane.waiting.empty();
  }
}

bool Server::Poll(uint64_t) {
  if (!std::exchange(freed_, false)) return false;
  for (Lane& lane : lanes_) {
    while (!lane.free.empty() && !lane.waiting.empty()) {
      auto [view, reply] = std::move(lane.waiting.front());
      lane.waiting.pop_front();
      Begin(lane, view, std::move(reply));
    }
  }
  return true;
}

void Server::Shutdown() { rpc_->Shutdown(); }

bool Server::Tell(const engine::Question& question, engine::Report* report) {
  if (question.topic != "nfs") return false;
  counters_.Tell(report);
  report->Count("busy", busy_);
  return true;
}

}  // namespace pollux::nfs
