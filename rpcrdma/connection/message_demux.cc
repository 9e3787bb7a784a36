#include "rpcrdma/connection/message_demux.h"

#include "absl/types/span.h"
#include "oncrpc/rpc_message.h"
#include "rpcrdma/wire/header.h"
#include "stack/base/byte_order.h"

namespace pollux::rpcrdma {
namespace {

// RFC 8167 section 4.1: by the call direction field, the second word of the RPC header.
std::optional<Direction> ByType(const Connection::Arrival& arrival, size_t payload_at) {
  constexpr size_t kTypeAt = 4;
  if (arrival.message.size() < payload_at + kTypeAt + 4) return std::nullopt;
  const uint32_t type = LoadBe32(arrival.message.data() + payload_at + kTypeAt);
  if (type == static_cast<uint32_t>(oncrpc::MessageType::kCall)) return Direction::kCall;
  if (type == static_cast<uint32_t>(oncrpc::MessageType::kReply)) return Direction::kReply;
  return std::nullopt;
}

}  // namespace

std::optional<Direction> DirectionOf(const Connection::Arrival& arrival) {
  if (arrival.plain) [[likely]]
    return ByType(arrival, kMinHeaderBytes);
  const auto& [status, bytes, header] = *arrival.header;
  // The fixed fields are valid in whatever is long enough for them.
  if (arrival.message.size() < kFixedBytes) return std::nullopt;
  if (header.proc == Proc::kError) return Direction::kReply;
  if (status != HeaderStatus::kOk) return std::nullopt;
  if (header.proc == Proc::kMsg) return ByType(arrival, bytes);
  if (header.proc != Proc::kNomsg) return std::nullopt;
  // RFC 8166 section 4.3.1
  if (header.chunks.read_count > 0) return Direction::kCall;
  if (header.chunks.has_reply) return Direction::kReply;
  return std::nullopt;
}

Direction MessageDemux::Guess(const Connection::Arrival& arrival) const {
  if (forward_ == Direction::kCall || arrival.message.size() < kFixedBytes) return forward_;
  return replies_->Expects(LoadBe32(&arrival.message[kXidAt])) ? Direction::kReply
                                                               : Direction::kCall;
}

void MessageDemux::OnMessage(const Connection::Arrival& arrival) {
  const std::optional<Direction> direction = DirectionOf(arrival);
  if (direction.has_value()) [[likely]] {
    return (*direction == Direction::kCall ? calls_ : replies_)->OnMessage(arrival);
  }
  Connection::Arrival guessed = arrival;
  guessed.is_directed = false;
  (Guess(arrival) == Direction::kCall ? calls_ : replies_)->OnMessage(guessed);
}

}  // namespace pollux::rpcrdma
