#include "rpcrdma/connection/message_demux.h"

#include <cstddef>

#include "oncrpc/rpc_message.h"
#include "rpcrdma/wire/header.h"
#include "stack/base/byte_order.h"

namespace pollux::rpcrdma {
namespace {

// Words of the transport header.
constexpr size_t kVersionIndex = 1;
constexpr size_t kProcWord = 3;
constexpr size_t kReadListWord = 4;

// The chunk lists walked over, and nothing of them kept or checked: the role does that.
class Words {
 public:
  explicit Words(absl::Span<const uint8_t> message) : message_(message) {}
  size_t count() const { return message_.size() / 4; }
  uint32_t operator[](size_t index) const {
    return index < count() ? LoadBe32(&message_[4 * index]) : 0;
  }
  // The word after the counted array of segments at `index`; count() when it ends outside.
  size_t AfterChunk(size_t index) const {
    const size_t segments = (*this)[index];
    return segments > count() ? count() : index + 1 + segments * (kSegmentBytes / 4);
  }

 private:
  absl::Span<const uint8_t> message_;
};

// Where the Payload stream of an RDMA_MSG begins.
size_t PayloadWord(const Words& words) {
  size_t at = kReadListWord;
  while (words[at] == 1) at += kReadSegmentBytes / 4;
  ++at;
  while (words[at] == 1) at = words.AfterChunk(at + 1);
  ++at;
  return words[at] == 1 ? words.AfterChunk(at + 1) : at + 1;
}

// RFC 8167 section 4.1: by the call direction field.
Direction ByType(uint32_t type, Direction forward) {
  if (type == static_cast<uint32_t>(oncrpc::MessageType::kCall)) return Direction::kCall;
  return type == static_cast<uint32_t>(oncrpc::MessageType::kReply) ? Direction::kReply : forward;
}

}  // namespace

Direction DirectionOf(absl::Span<const uint8_t> message, Direction forward) {
  const Words words(message);
  constexpr size_t kPlainTypeWord = kMinHeaderBytes / 4 + 1;
  if (IsPlainMessage(message) && kPlainTypeWord < words.count()) [[likely]] {
    return ByType(words[kPlainTypeWord], forward);
  }
  if (words.count() < kMinHeaderBytes / 4) {
    // Nothing shorter is anything but an error. RFC 8166 section 4.5
    return words[kProcWord] == static_cast<uint32_t>(Proc::kError) ? Direction::kReply : forward;
  }
  if (words[kVersionIndex] != kVersion) return forward;
  switch (static_cast<Proc>(words[kProcWord])) {
    case Proc::kError:
      return Direction::kReply;
    case Proc::kNomsg:
      return words[kReadListWord] != 0 ? Direction::kCall : forward;
    case Proc::kMsg: {
      const size_t type_word = PayloadWord(words) + 1;
      return type_word < words.count() ? ByType(words[type_word], forward) : forward;
    }
    default:
      return forward;
  }
}

void MessageDemux::OnMessage(const Connection::Arrival& arrival) {
  const bool is_call = DirectionOf(arrival.message, forward_) == Direction::kCall;
  (is_call ? calls_ : replies_)->OnMessage(arrival);
}

}  // namespace pollux::rpcrdma
