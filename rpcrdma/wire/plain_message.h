// Calls and replies without chunks, as most small ones are: both headers stand in one block of
// which few words differ from message to message. Byte for byte what EmitHeader() and EmitCall() or
// EmitReply() write. Source: RFC 8166 section 4, RFC 5531 section 9.
#ifndef POLLUX_RPCRDMA_WIRE_PLAIN_MESSAGE_H_
#define POLLUX_RPCRDMA_WIRE_PLAIN_MESSAGE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "oncrpc/rpc_message.h"
#include "rpcrdma/wire/header.h"

namespace pollux::rpcrdma {

// The headers of calls of one program under one credential, whose body is at most kMaxAuthBytes and
// is copied; the verifier is empty.
class PlainCall {
 public:
  // `call`: its program, version and credential.
  explicit PlainCall(const oncrpc::CallHeader& call);

  // Writes both headers and the arguments at the start of `out`; returns the length of all, or 0
  // when it does not fit.
  size_t Emit(uint32_t xid, uint32_t procedure, uint32_t credits,
              absl::Span<const uint8_t> arguments, absl::Span<uint8_t> out) const;

 private:
  // Six words and two empty authenticators.
  static constexpr size_t kMinBytes = kMinHeaderBytes + 24 + 8 + 8;
  static constexpr size_t kMaxBytes = kMinBytes + oncrpc::kMaxAuthBytes;

  size_t header_bytes_;
  std::array<uint8_t, kMaxBytes> headers_{};
};

// The same of a reply that says success, with an empty verifier.
size_t EmitPlainReply(uint32_t xid, uint32_t credits, absl::Span<const uint8_t> results,
                      absl::Span<uint8_t> out);

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_WIRE_PLAIN_MESSAGE_H_
