// ONC RPC call and reply headers. Upper layers that use libtirpc get theirs from its XDR; this
// codec is for the packet path, where a header must be read in place and written without heap.
// Source: RFC 5531 section 9.
#ifndef POLLUX_ONCRPC_RPC_MESSAGE_H_
#define POLLUX_ONCRPC_RPC_MESSAGE_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace pollux::oncrpc {

inline constexpr uint32_t kRpcVersion = 2;
inline constexpr uint32_t kMaxAuthBytes = 400;  // RFC 5531 section 8.2

enum class MessageType : uint32_t { kCall = 0, kReply = 1 };
enum class AuthFlavor : uint32_t { kNone = 0, kSys = 1, kShort = 2, kGss = 6 };

// A credential or verifier; its body is passed through unread.
struct OpaqueAuth {
  AuthFlavor flavor = AuthFlavor::kNone;
  absl::Span<const uint8_t> body;
};

// RPCSEC_GSS integrity or privacy protects the whole Payload stream, and control messages are none
// of the program's: nothing may be taken out of either. RFC 8166 sections 8.2.2 and 8.2.2.3
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
// auth_stat: why a call is denied, where that is said here.
enum class AuthStatus : uint32_t { kOk = 0, kBadCred = 1, kRejectedCred = 2 };

struct ReplyHeader {
  uint32_t xid = 0;
  bool denied = false;
  // accepted
  OpaqueAuth verifier;
  AcceptStatus accept_status = AcceptStatus::kSuccess;
  // denied
  RejectStatus reject_status = RejectStatus::kRpcMismatch;
  uint32_t auth_status = 0;
  // kProgramMismatch, kRpcMismatch: the versions that there are
  uint32_t low = 0;
  uint32_t high = 0;
};

// Bytes of an accepted reply's header without verifier body: what comes before the results.
inline constexpr size_t kReplyHeaderBytes = 24;

// Both return the header's length, or 0 when `bytes` holds no whole and valid header of that kind.
// A call of another RPC version parses up to rpc_version (and returns 8 + 4).
size_t ParseCall(absl::Span<const uint8_t> bytes, CallHeader* call);
size_t ParseReply(absl::Span<const uint8_t> bytes, ReplyHeader* reply);
// The same of what most replies are, success under a verifier without a body, in kReplyHeaderBytes;
// false for any other. `*reply` is as it was made.
bool ParsePlainReply(absl::Span<const uint8_t> bytes, ReplyHeader* reply);

size_t CallHeaderBytes(const CallHeader& call);
// Both return the length written, or 0 when it does not fit.
size_t EmitCall(const CallHeader& call, absl::Span<uint8_t> out);
size_t EmitReply(const ReplyHeader& reply, absl::Span<uint8_t> out);

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_RPC_MESSAGE_H_
