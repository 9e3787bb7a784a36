#include "stack/io/capture/capture_ring.h"

#include <rte_mbuf.h>

#include <algorithm>
#include <cstring>

namespace pollux::io {

CaptureRing::CaptureRing(size_t bytes)
    : mask_(bytes - 1), memory_(std::make_unique<uint8_t[]>(bytes)) {}

// Contiguous bytes at staged_end_, after a filler where the memory ends before them.
bool CaptureRing::MakeRoom(uint64_t size) {
  const uint64_t capacity = mask_ + 1;
  const uint64_t to_end = capacity - (staged_end_ & mask_);
  const uint64_t needed = to_end < size ? to_end + size : size;
  if (staged_end_ + needed - known_tail_ > capacity) {
    known_tail_ = tail_.load(std::memory_order_acquire);
    if (staged_end_ + needed - known_tail_ > capacity) return false;
  }
  if (to_end < size) {
    *At(staged_end_) = {.time_ns = 0,
                        .length = 0,
                        .captured = 0,
                        .size = static_cast<uint32_t>(to_end),
                        .direction = pcapng::Direction::kInbound,
                        .skip = true};
    staged_end_ += to_end;
  }
  return true;
}

void CaptureRing::Stage(const rte_mbuf* frame, pcapng::Direction direction, uint64_t time_ns) {
  if (staged_ == kMaxStaged) return;
  const uint32_t captured = std::min(frame->pkt_len, pcapng::kSnapLength);
  const uint64_t size = (sizeof(Record) + captured + kGrain - 1) / kGrain * kGrain;
  const bool fits = MakeRoom(size);
  left_out_[staged_] = !fits;
  if (fits) {
    Record* record = At(staged_end_);
    *record = {.time_ns = time_ns,
               .length = frame->pkt_len,
               .captured = captured,
               .size = static_cast<uint32_t>(size),
               .direction = direction,
               .skip = false};
    auto* to = reinterpret_cast<uint8_t*>(record + 1);
    uint32_t left = captured;
    for (const rte_mbuf* part = frame; part != nullptr && left > 0; part = part->next) {
      const uint32_t n = std::min<uint32_t>(left, part->data_len);
      std::memcpy(to, rte_pktmbuf_mtod(part, const uint8_t*), n);
      to += n;
      left -= n;
    }
    staged_end_ += size;
  }
  ends_[staged_++] = staged_end_;
}

void CaptureRing::Publish(unsigned count) {
  count = std::min(count, staged_);
  uint64_t dropped = 0;
  for (unsigned i = 0; i < count; ++i) dropped += left_out_[i] ? 1 : 0;
  // One writer: plain loads and stores, no locked instruction.
  seen_.store(seen_.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  dropped_.store(dropped_.load(std::memory_order_relaxed) + dropped, std::memory_order_relaxed);
  if (count > 0) head_.store(ends_[count - 1], std::memory_order_release);
  staged_end_ = head_.load(std::memory_order_relaxed);
  staged_ = 0;
}

const CaptureRing::Record* CaptureRing::Front() {
  const uint64_t head = head_.load(std::memory_order_acquire);
  uint64_t tail = tail_.load(std::memory_order_relaxed);
  while (tail != head && At(tail)->skip) {
    tail += At(tail)->size;
    tail_.store(tail, std::memory_order_release);
  }
  return tail == head ? nullptr : At(tail);
}

void CaptureRing::Pop() {
  const uint64_t tail = tail_.load(std::memory_order_relaxed);
  tail_.store(tail + At(tail)->size, std::memory_order_release);
}

}  // namespace pollux::io
