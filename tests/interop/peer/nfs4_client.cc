#include "tests/interop/peer/nfs4_client.h"

namespace pollux::nfs4 {
namespace {

constexpr size_t kMaxCallbackResultBytes = 256;

oncrpc::ProcedureBinding Bind(uint32_t number, uint32_t bytes) {
  return {.number = number, .max_argument_bytes = bytes, .max_result_bytes = bytes};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Create(engine::Worker* worker, cm::Manager* manager,
                                                       const Config& config) {
  std::unique_ptr<Client> client(new Client(config.timeout_ns));
  const oncrpc::Encoded body =
      oncrpc::Encode(config.credential, absl::MakeSpan(client->credential_));
  if (!body.ok) return absl::InvalidArgumentError("the credential is longer than AUTH_SYS allows");
  rpcrdma::ClientConfig rpc;
  rpc.credential = {.flavor = oncrpc::AuthFlavor::kSys, .body = body.stream};
  auto made =
      rpcrdma::Client::Create(worker, manager,
                              {.program = kProgram,
                               .version = kVersion,
                               .procedures = {Bind(kNull, 0), Bind(kCompound, kMaxCompoundBytes)}},
                              rpc);
  if (!made.ok()) return made.status();
  client->rpc_ = *std::move(made);
  if (absl::Status status = client->RegisterCallbacks(); !status.ok()) return status;
  return client;
}

absl::Status Client::RegisterCallbacks() {
  rpcrdma::Program program{
      .binding = {.program = kCallbackProgram,
                  .version = kCallbackVersion,
                  .procedures = {Bind(kNull, 0), Bind(kCompound, kMaxCompoundBytes)}}};
  program.procedures.push_back(
      {kNull, [](const rpcrdma::CallView&, rpcrdma::ReplyHandle reply) { reply.Send({}); }});
  program.procedures.push_back(
      {kCompound, [this](const rpcrdma::CallView& call, rpcrdma::ReplyHandle reply) {
         OnCallback(call, std::move(reply));
       }});
  return rpc_->RegisterProgram(std::move(program));
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

void Client::Send(const oncrpc::Encoded& encoded, oncrpc::CallDone done) {
  if (!encoded.ok) return done(absl::InvalidArgumentError("the compound is too long"), nullptr);
  auto shared = std::make_shared<oncrpc::CallDone>(std::move(done));
  const absl::Status status =
      rpc_->Call({.procedure = kCompound, .arguments = encoded.stream, .timeout_ns = timeout_ns_},
                 [shared](absl::Status result, const oncrpc::Reply* reply) {
                   (*shared)(std::move(result), reply);
                 });
  if (!status.ok()) (*shared)(status, nullptr);
}

void Client::OnCallback(const rpcrdma::CallView& call, rpcrdma::ReplyHandle reply) {
  CbCompound compound;
  if (!oncrpc::Decode(call.reader(), &compound)) {
    ++refused_;
    return reply.Fail(oncrpc::AcceptStatus::kGarbageArguments);
  }
  const CbSequence& sequence = compound.sequence;
  const bool ours = sequence.session == session_;
  const CbCompoundRes results{.status = ours ? kOk : kErrBadSession,
                              .session = sequence.session,
                              .sequenceid = sequence.sequenceid,
                              .slot = sequence.slot,
                              .highest_slot = sequence.highest_slot,
                              .target_highest_slot = sequence.highest_slot,
                              .recalled = compound.recall.has_value()};
  std::array<uint8_t, kMaxCallbackResultBytes> bytes;
  reply.Send(oncrpc::Encode(results, absl::MakeSpan(bytes)).stream);
  ++(ours ? callbacks_ : refused_);
  if (ours && compound.recall.has_value() && on_recall_ != nullptr) on_recall_(*compound.recall);
}

}  // namespace pollux::nfs4
