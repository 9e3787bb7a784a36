#include "tools/common/blocks.h"

#include <algorithm>

#include "tools/common/interrupt.h"

namespace pollux::tools {

Blocks::Blocks(const Shape& shape)
    : shape_(shape), buffers_(static_cast<size_t>(shape.in_flight)) {}

void Blocks::Start() {
  for (size_t i = 0; i < buffers_.size(); ++i) {
    buffers_[i].resize(std::min<uint64_t>(shape_.block_bytes, shape_.total));
    Next(i);
  }
}

bool Blocks::Take(uint64_t* offset) {
  if (next_ >= shape_.total) return false;
  *offset = next_;
  next_ += shape_.block_bytes;
  return true;
}

void Blocks::Moved(size_t buffer, const absl::Status& status, uint64_t bytes) {
  --under_way_;
  if (!status.ok() && status_.ok()) status_ = status;
  done_.fetch_add(bytes, std::memory_order_relaxed);
  Next(buffer);
}

void Blocks::Next(size_t buffer) {
  if (Interrupted() && status_.ok()) status_ = absl::CancelledError("interrupted");
  uint64_t offset = 0;
  if (!status_.ok() || !Take(&offset)) {
    if (under_way_ == 0 && !told_) {
      told_ = true;
      finished_.set_value(status_);
    }
    return;
  }
  ++under_way_;
  Move(buffer, offset,
       static_cast<uint32_t>(std::min<uint64_t>(shape_.block_bytes, shape_.total - offset)));
}

}  // namespace pollux::tools
