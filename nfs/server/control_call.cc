#include "nfs/server/control_call.h"

namespace pollux::nfs {

std::optional<ControlCall> ControlCall::Take(const ControlProgram& program,
                                             std::vector<uint8_t> record,
                                             const RecordServer::Ends& ends,
                                             RecordServer::Reply reply) {
  ControlCall call(std::move(record), ends, std::move(reply));
  call.header_bytes_ = oncrpc::ParseCall(call.record_, &call.header_);
  if (call.header_bytes_ == 0) return std::nullopt;
  oncrpc::ReplyHeader header{.xid = call.header_.xid};
  if (call.header_.rpc_version != oncrpc::kRpcVersion) {
    header.denied = true;
    header.low = header.high = oncrpc::kRpcVersion;
  } else if (call.header_.program != program.program) {
    header.accept_status = oncrpc::AcceptStatus::kProgramUnavailable;
  } else if (call.header_.version < program.low || call.header_.version > program.high) {
    header.accept_status = oncrpc::AcceptStatus::kProgramMismatch;
    header.low = program.low;
    header.high = program.high;
  } else {
    return call;
  }
  call.Send(header, std::vector<uint8_t>(kResultBytes), 0);
  return std::nullopt;
}

void ControlCall::Fail(oncrpc::AcceptStatus status) {
  Send({.xid = header_.xid, .accept_status = status}, std::vector<uint8_t>(kResultBytes), 0);
}

void ControlCall::Deny(AuthStatus status) {
  Send({.xid = header_.xid,
        .denied = true,
        .reject_status = oncrpc::RejectStatus::kAuthError,
        .auth_status = static_cast<uint32_t>(status)},
       std::vector<uint8_t>(kResultBytes), 0);
}

void ControlCall::Send(const oncrpc::ReplyHeader& header, std::vector<uint8_t> message,
                       size_t result_bytes) {
  message.resize(oncrpc::EmitReply(header, absl::MakeSpan(message)) + result_bytes);
  reply_.Send(std::move(message));
}

RecordServer::Handler HandlerOf(const ControlProgram& program,
                                absl::AnyInvocable<void(ControlCall)> serve) {
  return [program, serve = std::move(serve)](std::vector<uint8_t> record,
                                             const RecordServer::Ends& ends,
                                             RecordServer::Reply reply) mutable {
    auto call = ControlCall::Take(program, std::move(record), ends, std::move(reply));
    if (call.has_value()) serve(*std::move(call));
  };
}

}  // namespace pollux::nfs
