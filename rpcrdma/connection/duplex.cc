#include "rpcrdma/connection/duplex.h"

#include "absl/types/span.h"
#include "oncrpc/rpc_message.h"
#include "rpcrdma/wire/header.h"
#include "stack/base/byte_order.h"

namespace pollux::rpcrdma {
namespace {

// RFC 8167 section 4.1: by the call direction field, the second word of the RPC header.
Direction ByType(absl::Span<const uint8_t> payload, Direction forward) {
  constexpr size_t kTypeAt = 4;
  if (payload.size() < kTypeAt + 4) return forward;
  const uint32_t type = LoadBe32(&payload[kTypeAt]);
  if (type == static_cast<uint32_t>(oncrpc::MessageType::kCall)) return Direction::kCall;
  return type == static_cast<uint32_t>(oncrpc::MessageType::kReply) ? Direction::kReply : forward;
}

}  // namespace

Direction DirectionOf(const Connection::Arrival& arrival, Direction forward) {
  if (arrival.plain) [[likely]]
    return ByType(arrival.message.subspan(kMinHeaderBytes), forward);
  const auto& [status, bytes, header] = *arrival.header;
  // The fixed fields are valid in whatever is long enough for them.
  if (arrival.message.size() < kFixedBytes) return forward;
  if (header.proc == Proc::kError) return Direction::kReply;
  if (status != HeaderStatus::kOk) return forward;
  if (header.proc == Proc::kMsg) return ByType(arrival.message.subspan(bytes), forward);
  // RFC 8166 section 4.3.1
  if (header.proc == Proc::kNomsg && header.chunks.read_count > 0) return Direction::kCall;
  return forward;
}

void Duplex::OnMessage(const Connection::Arrival& arrival) {
  const bool is_call = DirectionOf(arrival, forward_) == Direction::kCall;
  (is_call ? calls_ : replies_)->OnMessage(arrival);
}

}  // namespace pollux::rpcrdma
