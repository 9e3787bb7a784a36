// Calls and replies without chunks, as most small ones are: both headers are one block in which few
// words differ between messages. The bytes are identical to those that EmitHeader() and EmitCall()
// or EmitReply() write. Source: RFC 8166 section 4, RFC 5531 section 9.
#ifndef POLLUX_RPCRDMA_WIRE_PLAIN_MESSAGE_H_
#define POLLUX_RPCRDMA_WIRE_PLAIN_MESSAGE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"
#include "oncrpc/rpc_message.h"
#include "oncrpc/xdr.h"
#include "rpcrdma/wire/header.h"
#include "stack/base/byte_order.h"

namespace pollux::rpcrdma {

// Offsets in a message of words of the RPC header, which follows the transport header.
namespace plain_message {
inline constexpr size_t kRpcXidAt = kMinHeaderBytes;
inline constexpr size_t kMessageTypeAt = kMinHeaderBytes + 4;
inline constexpr size_t kProcedureAt = kMinHeaderBytes + 20;

// Writes `body` and its pad after the headers. Returns false if they do not fit.
inline bool Append(absl::Span<const uint8_t> body, size_t header_bytes, absl::Span<uint8_t> out) {
  if (out.size() < header_bytes) [[unlikely]]
    return false;
  if (body.empty()) return true;
  const size_t padded = oncrpc::XdrRoundUp(body.size());
  if (out.size() - header_bytes < padded) [[unlikely]]
    return false;
  uint8_t* to = out.data() + header_bytes;
  std::memcpy(to, body.data(), body.size());
  std::memset(to + body.size(), 0, padded - body.size());
  return true;
}
}  // namespace plain_message

// The headers for calls of one program with one credential, whose body is at most kMaxAuthBytes
// long and is copied. The verifier is empty.
class PlainCall {
 public:
  // Uses the program, version and credential of `call`.
  explicit PlainCall(const oncrpc::CallHeader& call);

  // Writes both headers and the arguments at the start of `out`; returns the total length, or 0 if
  // it does not fit.
  [[gnu::always_inline]] size_t Emit(uint32_t xid, uint32_t procedure, uint32_t credits,
                                     absl::Span<const uint8_t> arguments,
                                     absl::Span<uint8_t> out) const {
    if (!plain_message::Append(arguments, header_bytes_, out)) [[unlikely]]
      return 0;
    uint8_t* const p = out.data();
    // Most credentials have no body; the compiler then knows the length.
    if (header_bytes_ == kMinBytes) [[likely]] {
      std::memcpy(p, headers_.data(), kMinBytes);
    } else {
      std::memcpy(p, headers_.data(), header_bytes_);
    }
    StoreBe32(p + kXidAt, xid);
    StoreBe32(p + kCreditsAt, credits);
    StoreBe32(p + plain_message::kRpcXidAt, xid);
    StoreBe32(p + plain_message::kProcedureAt, procedure);
    return header_bytes_ + oncrpc::XdrRoundUp(arguments.size());
  }

 private:
  // The RPC header has six words and two empty authenticators.
  static constexpr size_t kMinBytes = kMinHeaderBytes + 24 + 8 + 8;
  static constexpr size_t kMaxBytes = kMinBytes + oncrpc::kMaxAuthBytes;

  size_t header_bytes_;
  std::array<uint8_t, kMaxBytes> headers_{};
};

// The same for a successful reply with an empty verifier.
[[gnu::always_inline]] inline size_t EmitPlainReply(uint32_t xid, uint32_t credits,
                                                    absl::Span<const uint8_t> results,
                                                    absl::Span<uint8_t> out) {
  constexpr size_t kHeaderBytes = kMinHeaderBytes + oncrpc::kReplyHeaderBytes;
  // All else is zero: RDMA_MSG, no chunks, MSG_ACCEPTED, AUTH_NONE, SUCCESS.
  static constexpr auto kHeaders = [] {
    std::array<uint8_t, kHeaderBytes> headers{};
    headers[kVersionAt + 3] = kVersion;
    headers[plain_message::kMessageTypeAt + 3] = static_cast<uint8_t>(oncrpc::MessageType::kReply);
    return headers;
  }();
  if (!plain_message::Append(results, kHeaderBytes, out)) [[unlikely]]
    return 0;
  uint8_t* const p = out.data();
  std::memcpy(p, kHeaders.data(), kHeaderBytes);
  StoreBe32(p + kXidAt, xid);
  StoreBe32(p + kCreditsAt, credits);
  StoreBe32(p + plain_message::kRpcXidAt, xid);
  return kHeaderBytes + oncrpc::XdrRoundUp(results.size());
}

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_WIRE_PLAIN_MESSAGE_H_
