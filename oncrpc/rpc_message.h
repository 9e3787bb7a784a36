// ONC RPC call and reply headers. Upper layers that use libtirpc use its XDR; this codec is for the
// packet path, where a header is read in place and written without heap memory. Source: RFC 5531
// section 9.
#ifndef POLLUX_ONCRPC_RPC_MESSAGE_H_
#define POLLUX_ONCRPC_RPC_MESSAGE_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "stack/base/byte_order.h"

namespace pollux::oncrpc {

inline constexpr uint32_t kRpcVersion = 2;
inline constexpr uint32_t kMaxAuthBytes = 400;  // RFC 5531 section 8.2

enum class MessageType : uint32_t { kCall = 0, kReply = 1 };
enum class AuthFlavor : uint32_t { kNone = 0, kSys = 1, kShort = 2, kGss = 6 };

// A credential or verifier; its body is not interpreted.
struct OpaqueAuth {
  AuthFlavor flavor = AuthFlavor::kNone;
  absl::Span<const uint8_t> body;
};

// Whether data items must stay in the Payload stream: RPCSEC_GSS integrity and privacy protect the
// whole stream, and RPCSEC_GSS control messages do not belong to the program. RFC 8166 sections
// 8.2.2 and 8.2.2.3
bool ForbidsReduction(const OpaqueAuth& credential);

struct CallHeader {
  uint32_t xid = 0;
  uint32_t rpc_version = kRpcVersion;
  uint32_t program = 0;
  uint32_t version = 0;
  uint32_t procedure = 0;
  OpaqueAuth credential;
  OpaqueAuth verifier;
};

enum class AcceptStatus : uint32_t {
  kSuccess = 0,
  kProgramUnavailable = 1,
  kProgramMismatch = 2,
  kProcedureUnavailable = 3,
  kGarbageArguments = 4,
  kSystemError = 5,
};
enum class RejectStatus : uint32_t { kRpcMismatch = 0, kAuthError = 1 };
// auth_stat: the reasons for a denied call that are used here.
enum class AuthStatus : uint32_t { kOk = 0, kBadCred = 1, kRejectedCred = 2 };

struct ReplyHeader {
  uint32_t xid = 0;
  bool denied = false;
  // If accepted:
  OpaqueAuth verifier;
  AcceptStatus accept_status = AcceptStatus::kSuccess;
  // If denied:
  RejectStatus reject_status = RejectStatus::kRpcMismatch;
  uint32_t auth_status = 0;
  // For kProgramMismatch and kRpcMismatch: the supported versions.
  uint32_t low = 0;
  uint32_t high = 0;
};

// The size of an accepted reply's header without a verifier body; the results follow it.
inline constexpr size_t kReplyHeaderBytes = 24;

// Both return the header's length, or 0 if `bytes` does not start with a complete and valid header.
// A call of another RPC version is parsed up to rpc_version (the result is 12).
size_t ParseCall(absl::Span<const uint8_t> bytes, CallHeader* call);
size_t ParseReply(absl::Span<const uint8_t> bytes, ReplyHeader* reply);
// The same for the most frequent kind of reply: success, with an empty verifier body,
// kReplyHeaderBytes long. Returns false for any other reply. `*reply` must be default-constructed
// or filled by an earlier call of this function.
bool ParsePlainReply(absl::Span<const uint8_t> bytes, ReplyHeader* reply);

size_t CallHeaderBytes(const CallHeader& call);
// Both return the length written, or 0 if the header does not fit.
size_t EmitCall(const CallHeader& call, absl::Span<uint8_t> out);
size_t EmitReply(const ReplyHeader& reply, absl::Span<uint8_t> out);

// Parses any call. ParseCall() itself handles only the most frequent ones, whose authenticators
// have no body.
size_t ParseAnyCall(absl::Span<const uint8_t> bytes, CallHeader* call);

inline size_t ParseCall(absl::Span<const uint8_t> bytes, CallHeader* call) {
  constexpr size_t kBareCallBytes = 40;
  static_assert(MessageType::kCall == MessageType{});
  const uint8_t* const p = bytes.data();
  // The message type with the RPC version, and the lengths of both bodies.
  if (bytes.size() < kBareCallBytes || LoadBe64(p + 4) != kRpcVersion || LoadBe32(p + 28) != 0 ||
      LoadBe32(p + 36) != 0) [[unlikely]] {
    return ParseAnyCall(bytes, call);
  }
  call->xid = LoadBe32(p);
  call->rpc_version = kRpcVersion;
  call->program = LoadBe32(p + 12);
  call->version = LoadBe32(p + 16);
  call->procedure = LoadBe32(p + 20);
  call->credential = {.flavor = static_cast<AuthFlavor>(LoadBe32(p + 24)), .body = {}};
  call->verifier = {.flavor = static_cast<AuthFlavor>(LoadBe32(p + 32)), .body = {}};
  return kBareCallBytes;
}

inline bool ParsePlainReply(absl::Span<const uint8_t> bytes, ReplyHeader* reply) {
  const uint8_t* const p = bytes.data();
  // The message type with MSG_ACCEPTED, and the length of the verifier's body with SUCCESS.
  if (bytes.size() < kReplyHeaderBytes ||
      LoadBe64(p + 4) != uint64_t{static_cast<uint32_t>(MessageType::kReply)} << 32 ||
      LoadBe64(p + 16) != 0) {
    return false;
  }
  reply->xid = LoadBe32(p);
  reply->denied = false;
  reply->verifier = {.flavor = static_cast<AuthFlavor>(LoadBe32(p + 12)), .body = {}};
  reply->accept_status = AcceptStatus::kSuccess;
  return true;
}

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_RPC_MESSAGE_H_
