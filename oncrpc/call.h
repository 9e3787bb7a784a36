// A call and its reply, as the caller sees them.
#ifndef POLLUX_ONCRPC_CALL_H_
#define POLLUX_ONCRPC_CALL_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "oncrpc/rpc_message.h"
#include "oncrpc/xdr.h"

namespace pollux::oncrpc {

// An argument that the binding declares DDP-eligible.
struct EligibleItem {
  absl::Span<const uint8_t> bytes;
  // The position of its first byte in the stream without items: directly after its length word, as
  // returned by XdrWriter::EligibleOpaque().
  size_t position = 0;
};

// One call. All memory named here belongs to the caller and must stay untouched until the callback.
struct CallRequest {
  uint32_t procedure = 0;
  // Null: the requester writes the RPC header with an XID of its own. Otherwise the caller provides
  // XID, program, version, credential and verifier, as upper layers that sign the header
  // (RPCSEC_GSS) need it; the bodies are at most kMaxAuthBytes long.
  const CallHeader* header = nullptr;
  absl::Span<const uint8_t> arguments;  // XDR, without the bytes of `items`
  // At most kMaxItems, ordered by position. Items that do not fit the message are transferred by
  // RDMA READ, the largest first.
  absl::Span<const EligibleItem> items;
  // Buffers for eligible results, which are placed by RDMA WRITE, at most kMaxItems: the first
  // eligible result is placed in the first buffer, and so on. A result with an empty buffer, or
  // none, comes in the stream. Each buffer must hold the largest possible result, without XDR pad
  // (RFC 8166 section 3.4.6, 3.4.6.2 and 4.3.2.2); if it is too small, the call fails. The server
  // may write to the buffers even if it returns no result.
  absl::Span<const absl::Span<uint8_t>> item_buffers;
  // For a reply that does not fit into a message. Its size is kReplyHeaderBytes plus the largest
  // possible results.
  absl::Span<uint8_t> reply_buffer;
  // The maximum size of the results and of the body of the reply's verifier, if the caller knows a
  // lower one than the binding.
  std::optional<uint32_t> max_result_bytes;
  uint64_t timeout_ns = 0;  // 0: until the connection ends without reconnection
};

// Valid only during the callback.
struct Reply {
  ReplyHeader header;
  absl::Span<const uint8_t> results;
  absl::Span<const ReducedItem> items;  // one per offered buffer
  XdrReader reader() const { return XdrReader(results, items); }
};

// The status is OK for an RPC reply that reports success. Other RPC replies: Unimplemented (no such
// program, version or procedure), InvalidArgument (garbage arguments), Internal (system error),
// PermissionDenied (authentication). No RPC reply: Unavailable (the connection ended),
// DeadlineExceeded, FailedPrecondition (RDMA_ERROR, or the server's sizes are now too small for the
// call), DataLoss (a malformed reply), ResourceExhausted (no memory could be offered for the call).
// `reply` is null unless there was an RPC reply.
using CallDone = absl::AnyInvocable<void(absl::Status, const Reply* reply)>;

// Identifies a call for Cancel(). Never reused for another call.
struct CallId {
  uint32_t slot = 0;
  uint64_t number = 0;  // 0: no call
};

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_CALL_H_
