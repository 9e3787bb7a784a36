#include "oncrpc/rpc_message.h"

#include "oncrpc/xdr.h"
#include "stack/base/byte_order.h"

namespace pollux::oncrpc {
namespace {

OpaqueAuth ReadAuth(XdrReader& in) {
  OpaqueAuth auth;
  auth.flavor = static_cast<AuthFlavor>(in.Uint32());
  auth.body = in.Opaque(kMaxAuthBytes);
  return auth;
}

void WriteAuth(XdrWriter& out, const OpaqueAuth& auth) {
  out.Uint32(static_cast<uint32_t>(auth.flavor));
  out.Opaque(auth.body);
}

size_t AuthBytes(const OpaqueAuth& auth) { return 8 + XdrRoundUp(auth.body.size()); }

void ReadRejected(XdrReader& in, ReplyHeader* reply) {
  const uint32_t status = in.Uint32();
  if (status > 1) in.Fail();
  reply->reject_status = static_cast<RejectStatus>(status);
  if (reply->reject_status == RejectStatus::kAuthError) {
    reply->auth_status = in.Uint32();
  } else {
    reply->low = in.Uint32();
    reply->high = in.Uint32();
  }
}

// RFC 2203 section 5.2.1: rpc_gss_proc_t, of which the others are control messages, whose service
// means nothing; and rpc_gss_service_t.
constexpr uint32_t kGssData = 0;
constexpr uint32_t kGssIntegrity = 2;

}  // namespace

bool ForbidsReduction(const OpaqueAuth& credential) {
  if (credential.flavor != AuthFlavor::kGss) return false;
  XdrReader in(credential.body);
  in.Uint32();  // version
  const uint32_t procedure = in.Uint32();
  in.Uint32();  // sequence number
  const uint32_t service = in.Uint32();
  // Integrity and privacy; and what nobody can tell is taken for either.
  return procedure != kGssData || service >= kGssIntegrity || !in.ok();
}

size_t ParseAnyCall(absl::Span<const uint8_t> bytes, CallHeader* call) {
  XdrReader in(bytes);
  call->xid = in.Uint32();
  if (in.Uint32() != static_cast<uint32_t>(MessageType::kCall)) return 0;
  call->rpc_version = in.Uint32();
  if (!in.ok()) return 0;
  if (call->rpc_version != kRpcVersion) return 12;
  call->program = in.Uint32();
  call->version = in.Uint32();
  call->procedure = in.Uint32();
  call->credential = ReadAuth(in);
  call->verifier = ReadAuth(in);
  return in.ok() ? CallHeaderBytes(*call) : 0;
}

size_t ParseReply(absl::Span<const uint8_t> bytes, ReplyHeader* reply) {
  if (ParsePlainReply(bytes, reply)) return kReplyHeaderBytes;
  XdrReader in(bytes);
  reply->xid = in.Uint32();
  if (in.Uint32() != static_cast<uint32_t>(MessageType::kReply)) return 0;
  reply->denied = in.Bool();
  if (!in.ok()) return 0;
  if (reply->denied) {
    ReadRejected(in, reply);
    return in.ok() ? (reply->reject_status == RejectStatus::kAuthError ? 20 : 24) : 0;
  }
  reply->verifier = ReadAuth(in);
  const uint32_t status = in.Uint32();
  if (status > static_cast<uint32_t>(AcceptStatus::kSystemError)) in.Fail();
  reply->accept_status = static_cast<AcceptStatus>(status);
  size_t length = 12 + AuthBytes(reply->verifier) + 4;
  if (reply->accept_status == AcceptStatus::kProgramMismatch) {
    reply->low = in.Uint32();
    reply->high = in.Uint32();
    length += 8;
  }
  return in.ok() ? length : 0;
}

size_t CallHeaderBytes(const CallHeader& call) {
  return 24 + AuthBytes(call.credential) + AuthBytes(call.verifier);
}

size_t EmitCall(const CallHeader& call, absl::Span<uint8_t> bytes) {
  XdrWriter out(bytes);
  out.Uint32(call.xid);
  out.Uint32(static_cast<uint32_t>(MessageType::kCall));
  out.Uint32(call.rpc_version);
  out.Uint32(call.program);
  out.Uint32(call.version);
  out.Uint32(call.procedure);
  WriteAuth(out, call.credential);
  WriteAuth(out, call.verifier);
  return out.ok() ? out.size() : 0;
}

size_t EmitReply(const ReplyHeader& reply, absl::Span<uint8_t> bytes) {
  XdrWriter out(bytes);
  out.Uint32(reply.xid);
  out.Uint32(static_cast<uint32_t>(MessageType::kReply));
  out.Bool(reply.denied);
  if (reply.denied) {
    out.Uint32(static_cast<uint32_t>(reply.reject_status));
    if (reply.reject_status == RejectStatus::kAuthError) out.Uint32(reply.auth_status);
  } else {
    WriteAuth(out, reply.verifier);
    out.Uint32(static_cast<uint32_t>(reply.accept_status));
  }
  const bool mismatch = reply.denied ? reply.reject_status == RejectStatus::kRpcMismatch
                                     : reply.accept_status == AcceptStatus::kProgramMismatch;
  if (mismatch) {
    out.Uint32(reply.low);
    out.Uint32(reply.high);
  }
  return out.ok() ? out.size() : 0;
}

}  // namespace pollux::oncrpc
