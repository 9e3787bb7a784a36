// Calls and replies without chunks, as most small ones are: both headers are one block in which few
// words differ between messages. The bytes are identical to those that EmitHeader() and EmitCall()
// or EmitReply() write. Source: RFC 8166 section 4, RFC 5531 section 9.
#ifndef POLLUX_RPCRDMA_WIRE_PLAIN_MESSAGE_H_
#define POLLUX_RPCRDMA_WIRE_PLAIN_MESSAGE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "oncrpc/rpc_message.h"
#include "rpcrdma/wire/header.h"

namespace pollux::rpcrdma {

// The headers for calls of one program with one credential, whose body is at most kMaxAuthBytes
// long and is copied. The verifier is empty.
class PlainCall {
 public:
  // Uses the program, version and credential of `call`.
  explicit PlainCall(const oncrpc::CallHeader& call);

  // Writes both headers and the arguments at the start of `out`; returns the total length, or 0 if
  // it does not fit.
  size_t Emit(uint32_t xid, uint32_t procedure, uint32_t credits,
              absl::Span<const uint8_t> arguments, absl::Span<uint8_t> out) const;

 private:
  // The RPC header has six words and two empty authenticators.
  static constexpr size_t kMinBytes = kMinHeaderBytes + 24 + 8 + 8;
  static constexpr size_t kMaxBytes = kMinBytes + oncrpc::kMaxAuthBytes;

  size_t header_bytes_;
  std::array<uint8_t, kMaxBytes> headers_{};
};

// The same for a successful reply with an empty verifier.
size_t EmitPlainReply(uint32_t xid, uint32_t credits, absl::Span<const uint8_t> results,
                      absl::Span<uint8_t> out);

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_WIRE_PLAIN_MESSAGE_H_
