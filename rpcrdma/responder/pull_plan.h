// What the Read list of a call brings: the Payload stream of a long call, and the items that were
// reduced, each at its place in one buffer that they are pulled into.
#ifndef POLLUX_RPCRDMA_RESPONDER_PULL_PLAN_H_
#define POLLUX_RPCRDMA_RESPONDER_PULL_PLAN_H_

#include <array>
#include <cstdint>

#include "absl/types/span.h"
#include "oncrpc/binding.h"
#include "rpcrdma/wire/header.h"

namespace pollux::rpcrdma {

// One Read chunk other than that of position zero.
struct PulledItem {
  uint32_t position = 0;  // bytes from the start of the unreduced Payload stream
  uint32_t bytes = 0;     // with or without the item's XDR pad
  uint32_t at = 0;        // in the buffer
};

struct PullPlan {
  uint32_t payload_bytes = 0;  // of a long call, which stands at the start of the buffer
  uint32_t item_count = 0;
  std::array<PulledItem, oncrpc::kMaxItems> items;  // by position

  absl::Span<const PulledItem> all() const { return {items.data(), item_count}; }
  PulledItem* Find(uint32_t position);  // null when there is none
  uint64_t Bytes() const;               // pulled in all
};

// Segments with the same position make one chunk, whose bytes are concatenated in list order.
// RFC 8166 section 3.4.5. False: more than kMaxItems items, more than `room` bytes of buffer (RFC
// 8166 section 8.1.4), or a position-zero chunk where the message does not want one or the other
// way round (RFC 8166 section 3.5.3), or one without bytes (RFC 8166 section 4.2.4).
bool MakePullPlan(absl::Span<const ReadSegment> reads, Proc proc, uint32_t room, PullPlan* plan);

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_RESPONDER_PULL_PLAN_H_
