#include "stack/verbs/completion_queue.h"

#include <algorithm>
#include <bit>

namespace pollux::verbs {

CompletionQueue::CompletionQueue(uint32_t entries)
    : capacity_(std::clamp<uint32_t>(entries, 1, kMaxEntries)),
      mask_(std::bit_ceil(capacity_) - 1),
      ring_(std::make_unique<ibv_wc[]>(mask_ + 1)) {}

bool CompletionQueue::Push(const ibv_wc& wc) {
  if (size() == capacity_) {
    overrun_ = true;
    return false;
  }
  ring_[tail_++ & mask_] = wc;
  return true;
}

int CompletionQueue::Poll(int n, ibv_wc* wc) {
  const int taken = static_cast<int>(std::min<uint32_t>(std::max(n, 0), size()));
  for (int i = 0; i < taken; ++i) wc[i] = ring_[head_++ & mask_];
  return taken;
}

}  // namespace pollux::verbs
