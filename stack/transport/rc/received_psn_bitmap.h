// The responses to READs and atomics that have arrived and are not yet retired.
#ifndef POLLUX_STACK_TRANSPORT_RC_RECEIVED_PSN_BITMAP_H_
#define POLLUX_STACK_TRANSPORT_RC_RECEIVED_PSN_BITMAP_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "stack/base/types.h"

namespace pollux::transport {

// A set of PSNs that must lie within kSpan of each other: the caller keeps fewer in flight.
class ReceivedPsnBitmap {
 public:
  static constexpr uint32_t kSpan = 512;  // PSNs

  void Clear() {
    words_ = {};
    count_ = 0;
  }
  bool empty() const { return count_ == 0; }
  bool Has(Psn psn) const { return (words_[Word(psn)] & Bit(psn)) != 0; }
  // `psn` must not be in the set.
  void Add(Psn psn) {
    words_[Word(psn)] |= Bit(psn);
    ++count_;
  }
  // Removes `psn`. Returns false if it is not in the set.
  bool Take(Psn psn) {
    if (count_ == 0 || !Has(psn)) return false;
    words_[Word(psn)] &= ~Bit(psn);
    --count_;
    return true;
  }
  // Examines `count` PSNs from `first` on. Returns how many precede the first one that is in the
  // set or, if `present` is false, that is not; `count` if there is none. `count` is at most kSpan.
  uint32_t Until(bool present, Psn first, uint32_t count) const {
    if (count_ == 0) return present ? count : 0;
    for (uint32_t n = 0; n < count;) {
      const Psn at = first + n;
      const uint64_t word = words_[Word(at)];
      const uint32_t bit = at.value() % 64;
      const uint64_t wanted = (present ? word : ~word) >> bit;
      if (wanted != 0) return std::min(count, n + static_cast<uint32_t>(std::countr_zero(wanted)));
      n += 64 - bit;
    }
    return count;
  }

 private:
  static constexpr size_t Word(Psn psn) { return psn.value() % kSpan / 64; }
  static constexpr uint64_t Bit(Psn psn) { return uint64_t{1} << (psn.value() % 64); }
  static_assert(std::has_single_bit(kSpan) && kSpan % 64 == 0);

  std::array<uint64_t, kSpan / 64> words_{};
  uint32_t count_ = 0;
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_RC_RECEIVED_PSN_BITMAP_H_
