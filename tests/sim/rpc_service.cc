#include "tests/sim/rpc_service.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace pollux::sim {
namespace {

constexpr uint32_t kProgram = 0x20000099;
constexpr uint32_t kCallbackProgram = 0x40000099;

}  // namespace

oncrpc::ProgramBinding RpcBinding() {
  oncrpc::ProgramBinding binding{
      .program = kProgram,
      .version = 1,
      .procedures = {
          {.number = kRpcNull},
          {.number = kRpcEcho, .max_argument_bytes = kRpcMaxEcho, .max_result_bytes = kRpcMaxEcho},
          {.number = kRpcPut,
           .max_argument_bytes = 8,
           .max_eligible_argument_bytes = kRpcMaxItem,
           .max_result_bytes = 8},
          {.number = kRpcGet,
           .max_argument_bytes = 8,
           .max_result_bytes = 8,
           .max_eligible_result_bytes = kRpcMaxItem},
          {.number = kRpcOnce,
           .max_argument_bytes = 12,
           .max_eligible_argument_bytes = kRpcMaxItem,
           .max_result_bytes = 8,
           .max_eligible_result_bytes = kRpcMaxOnce}}};
  for (oncrpc::ProcedureBinding& procedure : binding.procedures) {
    procedure.idempotent = procedure.number != kRpcOnce;
  }
  return binding;
}

oncrpc::ProgramBinding RpcCallbackBinding() {
  return {.program = kCallbackProgram,
          .version = 1,
          .procedures = {{.number = kRpcCallbackEcho,
                          .max_argument_bytes = kRpcMaxCallback,
                          .max_result_bytes = kRpcMaxCallback}}};
}

uint32_t Checksum(absl::Span<const uint8_t> bytes) {
  uint32_t sum = 1;
  for (uint8_t byte : bytes) sum = sum * 16777619 + byte;
  return sum;
}

uint8_t RpcByteAt(uint32_t salt, size_t i) { return static_cast<uint8_t>(salt + i * 7 + (i >> 8)); }

RpcService::RpcService(Node& node, cm::Manager* manager, uint64_t seed)
    : node_(node), random_(seed), timer_(&RpcService::OnTimer, this) {
  rpcrdma::ServerConfig config;
  config.credits = 1 + static_cast<uint32_t>(random_.Below(24));
  config.send_bytes = 1024 * (1 + static_cast<uint32_t>(random_.Below(8)));
  config.receive_bytes = 1024 * (1 + static_cast<uint32_t>(random_.Below(8)));
  config.bulk_buffers = 2 + static_cast<uint32_t>(random_.Below(8));
  config.bulk_buffer_bytes = kRpcMaxItem + 4096;
  server_ = rpcrdma::Server::Create(&node.worker(), manager, config).value();
  rpcrdma::Program program{.binding = RpcBinding(), .procedures = {}};
  for (uint32_t procedure : {kRpcNull, kRpcEcho, kRpcPut, kRpcGet, kRpcOnce}) {
    program.procedures.push_back(
        {procedure, [this, procedure](const rpcrdma::CallView& call, rpcrdma::ReplyHandle reply) {
           Serve(procedure, call, std::move(reply));
         }});
  }
  if (!server_->RegisterProgram(std::move(program)).ok() || !server_->Listen(kRpcPort).ok()) {
    std::abort();
  }
}

RpcService::~RpcService() { timer_.Cancel(); }

void RpcService::Serve(uint32_t procedure, const rpcrdma::CallView& call,
                       rpcrdma::ReplyHandle reply) {
  if (random_.Chance(0.2)) CallBack(call.connection);
  if (random_.Chance(0.6)) return Reply(procedure, call, reply);
  // The call stays where it is until it is answered, whatever becomes of the connection.
  Delay([this, procedure, call, reply = std::move(reply)]() mutable {
    Reply(procedure, call, reply);
  });
}

void RpcService::Delay(DelayedReply reply) {
  const uint64_t due_ns = node_.worker().now_ns() + 1 + random_.Below(2'000'000);
  delayed_.emplace(due_ns, std::move(reply));
  node_.worker().wheel().Arm(timer_, delayed_.begin()->first);
}

void RpcService::OnTimer(void* service, uint64_t now_ns) {
  auto& self = *static_cast<RpcService*>(service);
  while (!self.delayed_.empty() && self.delayed_.begin()->first <= now_ns) {
    DelayedReply reply = std::move(self.delayed_.begin()->second);
    self.delayed_.erase(self.delayed_.begin());
    reply();
  }
  if (!self.delayed_.empty()) {
    self.node_.worker().wheel().Arm(self.timer_, self.delayed_.begin()->first);
  }
}

void RpcService::Reply(uint32_t procedure, const rpcrdma::CallView& call,
                       rpcrdma::ReplyHandle& reply) {
  using oncrpc::AcceptStatus;
  oncrpc::XdrReader in = call.reader();
  if (procedure == kRpcNull) return reply.Send({});
  if (procedure == kRpcEcho) return reply.Send(call.arguments);
  if (procedure == kRpcPut) {
    const uint32_t sum = Checksum(in.EligibleOpaque(kRpcMaxItem));
    const uint32_t word = in.Uint32();
    if (!in.AtEnd()) return reply.Fail(AcceptStatus::kGarbageArguments);
    uint8_t space[8];
    oncrpc::XdrWriter out(absl::MakeSpan(space));
    out.Uint32(sum);
    out.Uint32(word);
    return reply.Send(out.bytes());
  }
  if (procedure == kRpcOnce) {
    const uint32_t number = in.Uint32();
    in.EligibleOpaque(kRpcMaxItem);
    const uint32_t length = in.Uint32();
    if (!in.AtEnd() || length > kRpcMaxOnce) return reply.Fail(AcceptStatus::kGarbageArguments);
    return Once(number, length, reply);
  }
  const uint32_t length = in.Uint32();
  const uint32_t salt = in.Uint32();
  if (!in.AtEnd() || length > kRpcMaxItem) return reply.Fail(AcceptStatus::kGarbageArguments);
  Get(length, salt, 0, reply);
}

rpcrdma::ResultItem RpcService::Lend(uint32_t length, uint32_t salt, size_t position,
                                     uint32_t from) {
  auto bytes = std::make_shared<std::vector<uint8_t>>(length);
  for (size_t i = 0; i < length; ++i) (*bytes)[i] = RpcByteAt(salt, from + i);
  ++lent_;
  return {.bytes = *bytes, .position = position, .release = [this, bytes] {
            --lent_;
            // Whoever sends it later is seen.
            std::fill(bytes->begin(), bytes->end(), 0xDD);
          }};
}

void RpcService::Get(uint32_t length, uint32_t salt, uint32_t done, rpcrdma::ReplyHandle& reply) {
  const auto go_on_later = [&] {
    Delay([this, length, salt, done, reply = std::move(reply)]() mutable {
      Get(length, salt, done, reply);
    });
  };
  while (reply.PieceRoom() >= length && done < length && random_.Chance(0.7)) {
    if (!reply.CanWrite()) return go_on_later();
    const auto bytes = 1 + static_cast<uint32_t>(random_.Below(length - done));
    rpcrdma::ResultItem piece = Lend(bytes, salt, 0, done);
    reply.Write({.bytes = piece.bytes, .release = std::move(piece.release)});
    ++pieces_;
    done += bytes;
    if (random_.Chance(0.3)) return go_on_later();
  }
  uint8_t space[8];
  oncrpc::XdrWriter out(absl::MakeSpan(space));
  const size_t position = out.EligibleOpaque(length);
  out.Uint32(salt);
  reply.Send(out.bytes(), Lend(length - done, salt, position, done));
}

void RpcService::Once(uint32_t number, uint32_t length, rpcrdma::ReplyHandle& reply) {
  uint8_t space[8];
  oncrpc::XdrWriter out(absl::MakeSpan(space));
  out.Uint32(++runs_[number]);
  const size_t position = out.EligibleOpaque(length);
  reply.Send(out.bytes(), Lend(length, number, position));
}

void RpcService::CallBack(uint64_t connection) {
  const absl::Status opened = server_->OpenReverse(connection, RpcCallbackBinding());
  // The client may have gone before its call's turn came.
  if (!opened.ok() && opened.code() != absl::StatusCode::kAlreadyExists) return;
  auto bytes = std::make_shared<std::vector<uint8_t>>(random_.Below(kRpcMaxCallback / 4 + 1) * 4);
  const uint32_t salt = random_.Next32();
  for (size_t i = 0; i < bytes->size(); ++i) (*bytes)[i] = RpcByteAt(salt, i);
  const oncrpc::CallRequest request{.procedure = kRpcCallbackEcho, .arguments = *bytes};
  const absl::Status status = server_->CallReverse(
      connection, request, [this, bytes](absl::Status result, const oncrpc::Reply* reply) {
        --callbacks_outstanding_;
        if (result.ok()) {
          ++callbacks_answered_;
          if (reply->results != absl::MakeConstSpan(*bytes)) callback_violation_ = "another echo";
        } else if (result.code() != absl::StatusCode::kUnavailable) {
          callback_violation_ = result.ToString();
        }
      });
  // More than may wait: the client is slow to answer.
  if (status.code() == absl::StatusCode::kResourceExhausted) return;
  if (!status.ok()) callback_violation_ = status.ToString();
  ++callbacks_outstanding_;
}

uint32_t RpcService::runs(uint32_t number) const {
  const auto found = runs_.find(number);
  return found == runs_.end() ? 0 : found->second;
}

void RpcService::Cut() {
  server_->Shutdown();
  if (!server_->Listen(kRpcPort).ok()) std::abort();
}

}  // namespace pollux::sim
