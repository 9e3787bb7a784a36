// Tracks the gaps in responses to READs and atomics that were requested again and are still
// awaited.
#ifndef POLLUX_STACK_TRANSPORT_RC_READ_GAP_TRACKER_H_
#define POLLUX_STACK_TRANSPORT_RC_READ_GAP_TRACKER_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "stack/base/types.h"
#include "stack/transport/rc/received_psn_bitmap.h"

namespace pollux::transport {

// Gaps are kept in the order in which they were requested. The peer responds in that order. A
// response to a later request therefore proves that an earlier repetition, or its response, was
// lost. So nothing is requested twice within a round trip, and no clock is needed. Owned by one
// worker.
class ReadGapTracker {
 public:
  // As many repetitions as a responder accepts in addition to the responses in progress
  // (ResponderResources::kMaxRepeats). A further gap waits until one of them is answered.
  static constexpr uint32_t kMax = 16;

  bool empty() const { return size_ == 0; }
  bool full() const { return size_ == kMax; }
  void Clear() { size_ = 0; }

  // [begin, end) was requested again when `sent_end` was one past the highest PSN ever sent.
  // Replaces an earlier gap that contains `begin`. Kept only if there is room.
  void Asked(Psn begin, Psn end, Psn sent_end) {
    Remove([&](const Gap& gap) { return gap.Holds(begin); });
    if (!full()) gaps_[size_++] = {.begin = begin, .end = end, .sent_end = sent_end};
  }
  // Whether any part of [begin, end) is awaited.
  bool Awaits(Psn begin, Psn end) const {
    return std::any_of(gaps_.begin(), gaps_.begin() + size_, [&](const Gap& gap) {
      return Before(gap.begin, end) && Before(begin, gap.end);
    });
  }
  // A response with `psn` arrived. Removes the gaps that are closed, and those whose repetition it
  // proves lost; returns true if one was lost. Everything before `una` and in `arrived` has
  // arrived.
  bool OnAnswer(Psn psn, Psn una, const ReceivedPsnBitmap& arrived) {
    uint32_t later = size_;  // one past the last gap requested before the answered one
    while (later > 0 && !gaps_[later - 1].OlderThan(psn)) --later;
    for (uint32_t i = size_; i-- > later;) {
      if (gaps_[i].Holds(psn)) later = i;
    }
    bool lost = later > 0;
    std::copy(gaps_.begin() + later, gaps_.begin() + size_, gaps_.begin());
    size_ -= later;
    Remove([&](const Gap& gap) {
      if (!gap.Holds(psn)) return false;
      const Psn begin = Before(gap.begin, una) ? una : gap.begin;
      const auto wanted = static_cast<uint32_t>(Distance(begin, gap.end));
      const uint32_t here = arrived.Until(false, begin, wanted);
      // The packets of a response arrive in order: those before `psn` are lost.
      const bool torn = Before(begin + here, psn);
      lost |= torn;
      return torn || here == wanted;
    });
    return lost;
  }
  // Removes all gaps that contain `psn` or a later PSN.
  void ForgetFrom(Psn psn) {
    Remove([&](const Gap& gap) { return Before(psn, gap.end); });
  }

 private:
  struct Gap {
    Psn begin, end, sent_end;
    bool Holds(Psn psn) const { return !Before(psn, begin) && Before(psn, end); }
    // Whether `psn` was first sent after the gap was requested.
    bool OlderThan(Psn psn) const { return !Before(psn, sent_end); }
  };
  template <typename Condition>
  void Remove(Condition condition) {
    const auto end = std::remove_if(gaps_.begin(), gaps_.begin() + size_, condition);
    size_ = static_cast<uint32_t>(end - gaps_.begin());
  }

  uint32_t size_ = 0;
  std::array<Gap, kMax> gaps_{};  // the first size_, oldest first
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_RC_READ_GAP_TRACKER_H_
