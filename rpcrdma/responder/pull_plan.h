// A plan for reading the Read list of a call into one buffer: the Payload stream of a long call,
// and the reduced items, each with its place in the buffer.
#ifndef POLLUX_RPCRDMA_RESPONDER_PULL_PLAN_H_
#define POLLUX_RPCRDMA_RESPONDER_PULL_PLAN_H_

#include <array>
#include <cstdint>

#include "absl/types/span.h"
#include "oncrpc/binding.h"
#include "rpcrdma/wire/header.h"

namespace pollux::rpcrdma {

// One Read chunk that is not at position zero.
struct PulledItem {
  uint32_t position = 0;  // bytes from the start of the unreduced Payload stream
  uint32_t bytes = 0;     // with or without the item's XDR pad
  uint32_t at = 0;        // offset in the buffer
};

struct PullPlan {
  uint32_t payload_bytes = 0;  // of a long call; it is at the start of the buffer
  uint32_t item_count = 0;
  std::array<PulledItem, oncrpc::kMaxItems> items;  // ordered by position

  absl::Span<const PulledItem> all() const { return {items.data(), item_count}; }
  PulledItem* Find(uint32_t position);  // null if there is none
  uint64_t Bytes() const;               // the total number of bytes to read
};

// Segments with the same position make one chunk, whose bytes are concatenated in list order. RFC
// 8166 section 3.4.5. Returns false for more than kMaxItems items, more than `room` bytes in all
// (RFC 8166 section 8.1.4), an RDMA_NOMSG without a position-zero chunk or another message with one
// (RFC 8166 section 3.5.3), or an empty position-zero chunk (RFC 8166 section 4.2.4).
bool MakePullPlan(absl::Span<const ReadSegment> reads, Proc proc, uint32_t room, PullPlan* plan);

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_RESPONDER_PULL_PLAN_H_
