#include "rpcrdma/wire/plain_message.h"

#include <cstring>

#include "oncrpc/xdr.h"
#include "stack/base/byte_order.h"

namespace pollux::rpcrdma {
namespace {

// Where words stand, in the transport header and in the RPC header behind it.
constexpr size_t kXid = 0;
constexpr size_t kVersionWord = 4;
constexpr size_t kCredits = 8;
constexpr size_t kRpcXid = kMinHeaderBytes;
constexpr size_t kMessageType = kMinHeaderBytes + 4;
constexpr size_t kProcedure = kMinHeaderBytes + 20;

using ReplyHeaders = std::array<uint8_t, kMinHeaderBytes + oncrpc::kReplyHeaderBytes>;

// All else is zero: RDMA_MSG, no chunks, MSG_ACCEPTED, AUTH_NONE, SUCCESS.
constexpr ReplyHeaders MakeReplyHeaders() {
  ReplyHeaders headers{};
  headers[kVersionWord + 3] = kVersion;
  headers[kMessageType + 3] = static_cast<uint8_t>(oncrpc::MessageType::kReply);
  return headers;
}
constexpr ReplyHeaders kReplyHeaders = MakeReplyHeaders();

// Puts `body` and its pad behind the headers. False when it does not fit.
inline bool Append(absl::Span<const uint8_t> body, size_t header_bytes, absl::Span<uint8_t> out) {
  if (out.size() < header_bytes) return false;
  if (body.empty()) return true;
  const size_t padded = oncrpc::XdrRoundUp(body.size());
  if (out.size() - header_bytes < padded) return false;
  uint8_t* to = out.data() + header_bytes;
  std::memcpy(to, body.data(), body.size());
  std::memset(to + body.size(), 0, padded - body.size());
  return true;
}

}  // namespace

PlainCall::PlainCall(const oncrpc::CallHeader& call) {
  const size_t transport_bytes = EmitHeader(Header{}, absl::MakeSpan(headers_));
  header_bytes_ =
      transport_bytes +
      oncrpc::EmitCall(
          {.program = call.program, .version = call.version, .credential = call.credential},
          absl::MakeSpan(headers_).subspan(transport_bytes));
}

size_t PlainCall::Emit(uint32_t xid, uint32_t procedure, uint32_t credits,
                       absl::Span<const uint8_t> arguments, absl::Span<uint8_t> out) const {
  if (!Append(arguments, header_bytes_, out)) return 0;
  uint8_t* p = out.data();
  // Without a body, as most credentials are: the compiler knows how much it is.
  if (header_bytes_ == kMinBytes) {
    std::memcpy(p, headers_.data(), kMinBytes);
  } else {
    std::memcpy(p, headers_.data(), header_bytes_);
  }
  StoreBe32(p + kXid, xid);
  StoreBe32(p + kCredits, credits);
  StoreBe32(p + kRpcXid, xid);
  StoreBe32(p + kProcedure, procedure);
  return header_bytes_ + oncrpc::XdrRoundUp(arguments.size());
}

size_t EmitPlainReply(uint32_t xid, uint32_t credits, absl::Span<const uint8_t> results,
                      absl::Span<uint8_t> out) {
  if (!Append(results, kReplyHeaders.size(), out)) return 0;
  uint8_t* p = out.data();
  std::memcpy(p, kReplyHeaders.data(), kReplyHeaders.size());
  StoreBe32(p + kXid, xid);
  StoreBe32(p + kCredits, credits);
  StoreBe32(p + kRpcXid, xid);
  return kReplyHeaders.size() + oncrpc::XdrRoundUp(results.size());
}

}  // namespace pollux::rpcrdma
