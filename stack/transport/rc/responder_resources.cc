#include "stack/transport/rc/responder_resources.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace pollux::transport {

void ResponderResources::Start(uint32_t capacity) {
  Clear();
  Resize(capacity);
}

void ResponderResources::Resize(uint32_t capacity) {
  // Adapters round the number of their outstanding requests up to a power of two (mlx5, mlx4, hns).
  if (capacity > 0) capacity = std::bit_ceil(capacity);
  const uint32_t slots = std::max(capacity, 1u);
  auto resources = std::make_unique<ResponderResource[]>(slots);
  const uint32_t kept = std::min(tail_ - head_, capacity);
  head_ = tail_ - kept;
  for (uint32_t i = head_; i != tail_; ++i) resources[i & (slots - 1)] = At(i);
  if (due_ - head_ > kept) due_ = head_;
  resources_ = std::move(resources);
  mask_ = slots - 1;
  capacity_ = capacity;
}

bool ResponderResources::Full() {
  // A peer that counts what it has outstanding has the response to the oldest when it sends a new
  // READ or atomic: a repetition under way answers a duplicate that came late.
  return capacity_ != 0 && tail_ - head_ == capacity_ && At(head_).response.active() &&
         !At(head_).answered();
}

ResponderResource* ResponderResources::Add(Psn first_psn, uint32_t packets) {
  if (capacity_ == 0 || Full()) return nullptr;
  if (tail_ - head_ == capacity_) {
    if (due_ == head_++) due_ = head_;
  }
  ResponderResource& entry = At(tail_++);
  entry = ResponderResource{.first_psn = first_psn, .packets = packets};
  entry.response.end = packets;
  return &entry;
}

ResponderResource* ResponderResources::Find(Psn psn) {
  // The newest first: PSNs come again.
  for (uint32_t i = tail_; i != head_;) {
    ResponderResource& entry = At(--i);
    const int32_t packet = Distance(entry.first_psn, psn);
    if (packet >= 0 && static_cast<uint32_t>(packet) < entry.packets) return &entry;
  }
  return nullptr;
}

bool ResponderResources::Repeat(ResponderResource& resource, uint32_t begin, uint32_t end,
                                uint16_t cut) {
  ResponseRange& response = resource.response;
  const ResponseRange wanted{.next = begin, .end = end, .cut = cut};
  const bool reaches_as_far = end > response.end || (end == response.end && cut <= response.cut);
  const bool ends_within =
      end < response.end ? cut == 0 : end == response.end && cut == response.cut;
  uint32_t index = head_;
  while (&At(index) != &resource) ++index;
  if (!response.active() || (begin <= response.next && reaches_as_far)) {
    response = wanted;
    resource.repeated = true;
    if (index - head_ < due_ - head_) due_ = index;
    return true;
  }
  if (begin >= response.next && ends_within) return true;  // it comes in its turn
  if (repeat_tail_ - repeat_head_ == kMaxRepeats) return false;
  repeats_[repeat_tail_++ % kMaxRepeats] = {.index = index, .response = wanted};
  resource.repeated = true;
  return true;
}

ResponderResources::Due ResponderResources::Next() {
  for (; repeat_head_ != repeat_tail_; ++repeat_head_) {
    Repetition& repeat = repeats_[repeat_head_ % kMaxRepeats];
    const bool remembered = repeat.index - head_ < tail_ - head_;
    if (remembered && repeat.response.active()) return {&At(repeat.index), &repeat.response};
  }
  for (; due_ != tail_; ++due_) {
    if (At(due_).response.active()) return {&At(due_), &At(due_).response};
  }
  return {};
}

void ResponderResources::Cancel() {
  repeat_head_ = repeat_tail_;
  for (uint32_t i = head_; i != tail_; ++i) At(i).response.next = At(i).response.end;
}

}  // namespace pollux::transport
