#include "oncrpc/reply_status.h"

#include "absl/strings/str_format.h"

namespace pollux::oncrpc {

absl::Status StatusOf(const ReplyHeader& reply, const ProgramBinding& binding, uint32_t procedure) {
  if (reply.denied) {
    return reply.reject_status == RejectStatus::kAuthError
               ? absl::PermissionDeniedError(absl::StrFormat(
                     "the server rejected the call: authentication status %d", reply.auth_status))
               : absl::UnimplementedError("the server uses another version of RPC");
  }
  switch (reply.accept_status) {
    case AcceptStatus::kSuccess:
      return absl::OkStatus();
    case AcceptStatus::kProgramUnavailable:
      return absl::UnimplementedError(
          absl::StrFormat("the server has no program %d", binding.program));
    case AcceptStatus::kProgramMismatch:
      return absl::UnimplementedError(absl::StrFormat(
          "version %d of program %d was requested; the server has only versions %d to %d",
          binding.version, binding.program, reply.low, reply.high));
    case AcceptStatus::kProcedureUnavailable:
      return absl::UnimplementedError(
          absl::StrFormat("the server has no procedure %d in version %d of program %d", procedure,
                          binding.version, binding.program));
    case AcceptStatus::kGarbageArguments:
      return absl::InvalidArgumentError("the server cannot decode the arguments");
    case AcceptStatus::kSystemError:
      break;
  }
  return absl::InternalError("the server failed to serve the call");
}

}  // namespace pollux::oncrpc
