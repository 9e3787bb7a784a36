#include "oncrpc/service_call.h"

namespace pollux::oncrpc {

std::optional<ServiceCall> ServiceCall::Take(const ServiceProgram& program,
                                             std::vector<uint8_t> record, const CallRoute& route,
                                             ReplySender reply) {
  ServiceCall call(std::move(record), route, std::move(reply));
  call.header_bytes_ = ParseCall(call.record_, &call.header_);
  if (call.header_bytes_ == 0) return std::nullopt;
  ReplyHeader header{.xid = call.header_.xid};
  if (call.header_.rpc_version != kRpcVersion) {
    header.denied = true;
    header.low = header.high = kRpcVersion;
  } else if (call.header_.program != program.program) {
    header.accept_status = AcceptStatus::kProgramUnavailable;
  } else if (call.header_.version < program.low || call.header_.version > program.high) {
    header.accept_status = AcceptStatus::kProgramMismatch;
    header.low = program.low;
    header.high = program.high;
  } else {
    return call;
  }
  call.Send(header, std::vector<uint8_t>(kResultBytes), 0);
  return std::nullopt;
}

void ServiceCall::Fail(AcceptStatus status) {
  Send({.xid = header_.xid, .accept_status = status}, std::vector<uint8_t>(kResultBytes), 0);
}

void ServiceCall::Deny(AuthStatus status) {
  Send({.xid = header_.xid,
        .denied = true,
        .reject_status = RejectStatus::kAuthError,
        .auth_status = static_cast<uint32_t>(status)},
       std::vector<uint8_t>(kResultBytes), 0);
}

void ServiceCall::Send(const ReplyHeader& header, std::vector<uint8_t> message,
                       size_t result_bytes) {
  message.resize(EmitReply(header, absl::MakeSpan(message)) + result_bytes);
  // A copy has no spare capacity. Replies wait to be sent, and the space for a list is many times
  // the size of most lists.
  reply_.Send(std::vector<uint8_t>(message));
}

RecordHandler HandlerOf(const ServiceProgram& program,
                        absl::AnyInvocable<void(ServiceCall)> serve) {
  return [program, serve = std::move(serve)](std::vector<uint8_t> record, const CallRoute& route,
                                             ReplySender reply) mutable {
    auto call = ServiceCall::Take(program, std::move(record), route, std::move(reply));
    if (call.has_value()) serve(*std::move(call));
  };
}

}  // namespace pollux::oncrpc
