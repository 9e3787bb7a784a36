#include "nfs/lock/held_ranges.h"

#include <algorithm>

namespace pollux::nfs {

std::optional<ByteRange> ByteRange::From(uint64_t offset, uint64_t length) {
  if (offset > kEnd) return std::nullopt;
  if (length == 0) return ByteRange{.begin = offset, .last = kEnd};
  if (length - 1 > kEnd - offset) return std::nullopt;
  return ByteRange{.begin = offset, .last = offset + length - 1};
}

void HeldRanges::Release(const ByteRange& range) {
  std::vector<HeldRange> left;
  for (const HeldRange& held : held_) {
    if (!held.range.Overlaps(range)) {
      left.push_back(held);
      continue;
    }
    if (held.range.begin < range.begin) {
      left.push_back({{held.range.begin, range.begin - 1}, held.exclusive});
    }
    if (held.range.last > range.last) {
      left.push_back({{range.last + 1, held.range.last}, held.exclusive});
    }
  }
  held_ = std::move(left);
}

void HeldRanges::Hold(const ByteRange& range, bool exclusive) {
  Release(range);
  const auto behind = std::ranges::find_if(
      held_, [&](const HeldRange& held) { return held.range.begin > range.last; });
  held_.insert(behind, {range, exclusive});
  std::vector<HeldRange> joined;
  for (const HeldRange& held : held_) {
    const bool continues = !joined.empty() && joined.back().exclusive == held.exclusive &&
                           joined.back().range.last + 1 == held.range.begin;
    if (continues) {
      joined.back().range.last = held.range.last;
    } else {
      joined.push_back(held);
    }
  }
  held_ = std::move(joined);
}

HeldRanges HeldRanges::Within(const ByteRange& range) const {
  HeldRanges within;
  for (const HeldRange& held : held_) {
    if (!held.range.Overlaps(range)) continue;
    within.held_.push_back(
        {{std::max(held.range.begin, range.begin), std::min(held.range.last, range.last)},
         held.exclusive});
  }
  return within;
}

const HeldRange* HeldRanges::Conflict(const ByteRange& range, bool exclusive) const {
  const auto found = std::ranges::find_if(held_, [&](const HeldRange& held) {
    return (exclusive || held.exclusive) && held.range.Overlaps(range);
  });
  return found == held_.end() ? nullptr : &*found;
}

}  // namespace pollux::nfs
