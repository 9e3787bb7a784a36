#include "rpcrdma/responder/pull_plan.h"

#include <algorithm>

#include "oncrpc/xdr.h"

namespace pollux::rpcrdma {

PulledItem* PullPlan::Find(uint32_t position) {
  for (uint32_t i = 0; i < item_count; ++i) {
    if (items[i].position == position) return &items[i];
  }
  return nullptr;
}

uint64_t PullPlan::Bytes() const {
  uint64_t bytes = payload_bytes;
  for (const PulledItem& item : all()) bytes += item.bytes;
  return bytes;
}

bool MakePullPlan(absl::Span<const ReadSegment> reads, Proc proc, uint32_t room, PullPlan* plan) {
  std::array<uint64_t, oncrpc::kMaxItems> bytes{};
  uint64_t payload = 0;
  bool has_payload = false;
  plan->item_count = 0;
  for (const ReadSegment& read : reads) {
    if (read.position == 0) {
      has_payload = true;
      payload += read.target.length;
      continue;
    }
    // Few, and almost always in order: the place is looked for from the end.
    uint32_t at = plan->item_count;
    while (at > 0 && plan->items[at - 1].position > read.position) --at;
    if (at == 0 || plan->items[at - 1].position != read.position) {
      if (plan->item_count == oncrpc::kMaxItems) return false;
      std::copy_backward(plan->items.begin() + at, plan->items.begin() + plan->item_count,
                         plan->items.begin() + plan->item_count + 1);
      std::copy_backward(bytes.begin() + at, bytes.begin() + plan->item_count,
                         bytes.begin() + plan->item_count + 1);
      plan->items[at] = {.position = read.position};
      bytes[at] = 0;
      ++plan->item_count;
      ++at;
    }
    bytes[at - 1] += read.target.length;
  }
  if (has_payload != (proc == Proc::kNomsg)) return false;
  // A chunk of no bytes holds no Payload stream.
  if (has_payload && payload == 0) return false;

  uint64_t end = oncrpc::XdrRoundUp(payload);
  for (uint32_t i = 0; i < plan->item_count; ++i) {
    if (end > room) return false;
    plan->items[i].at = static_cast<uint32_t>(end);
    plan->items[i].bytes = static_cast<uint32_t>(std::min<uint64_t>(bytes[i], room));
    end += oncrpc::XdrRoundUp(bytes[i]);
  }
  if (end > room) return false;
  plan->payload_bytes = static_cast<uint32_t>(payload);
  return true;
}

}  // namespace pollux::rpcrdma
