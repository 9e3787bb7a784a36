// One call as its caller states it, and the reply as he gets it.
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

// An argument that the binding calls DDP-eligible.
struct EligibleItem {
  absl::Span<const uint8_t> bytes;
  // Where its first byte belongs in the stream that holds everything but items: right after its
  // length word, as XdrWriter::EligibleOpaque says.
  size_t position = 0;
};

// One call. All memory named here stays the caller's, and must stay untouched, until the callback.
struct CallRequest {
  uint32_t procedure = 0;
  // Null: the requester writes the RPC header, with an XID of its own. Else the header is the
  // caller's, XID, program, version, credential and verifier, as upper layers need it that sign it
  // (RPCSEC_GSS); its bodies are at most kMaxAuthBytes long.
  const CallHeader* header = nullptr;
  absl::Span<const uint8_t> arguments;  // XDR, without the bytes of `items`
  // At most kMaxItems, by position. Those that do not fit the message, the largest first, are moved
  // by RDMA READ.
  absl::Span<const EligibleItem> items;
  // Where the eligible results may be placed by RDMA WRITE, at most kMaxItems: the first result
  // that there is in the first, and so on. An empty one, or none: that result comes in the stream.
  // Each as large as the largest result that may come there, without XDR pad (RFC 8166 section
  // 3.4.6, 3.4.6.2 and 4.3.2.2); one too small makes the call fail. They may be written to although
  // no result comes.
  absl::Span<const absl::Span<uint8_t>> item_buffers;
  // Where a reply may be placed that does not fit a message: kReplyHeaderBytes and the results.
  absl::Span<uint8_t> reply_buffer;
  // The most that the results can take, with the body of the reply's verifier, where the caller
  // knows better than the binding.
  std::optional<uint32_t> max_result_bytes;
  uint64_t timeout_ns = 0;  // 0: until the connection ends for good
};

// Valid during the callback.
struct Reply {
  ReplyHeader header;
  absl::Span<const uint8_t> results;
  absl::Span<const ReducedItem> items;  // one for each buffer offered
  XdrReader reader() const { return XdrReader(results, items); }
};

// OK: an RPC reply that says success. Other RPC replies: Unimplemented (no such program, version or
// procedure), InvalidArgument (garbage arguments), Internal (system error), PermissionDenied
// (authentication). No RPC reply: Unavailable (the connection ended), DeadlineExceeded,
// FailedPrecondition (RDMA_ERROR, or what the server now takes is too little for the call),
// DataLoss (a reply that makes no sense), ResourceExhausted (no memory can be offered for the call
// now). `reply` is null unless there was an RPC reply.
using CallDone = absl::AnyInvocable<void(absl::Status, const Reply* reply)>;

// Names a call to Cancel() it; never names another one later.
struct CallId {
  uint32_t slot = 0;
  uint64_t number = 0;  // 0: no call
};

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_CALL_H_
