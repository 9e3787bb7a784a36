// The ranges that one owner has locked in one file.
#ifndef POLLUX_NFS_LOCK_HELD_RANGES_H_
#define POLLUX_NFS_LOCK_HELD_RANGES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace pollux::nfs {

// A range of at least one byte in a file.
struct ByteRange {
  // Stands for the end of the file; no file is that long.
  static constexpr uint64_t kEnd = INT64_MAX;

  uint64_t begin = 0;
  uint64_t last = kEnd;

  // Converts NLM's arguments, in which a `length` of 0 means "to the end of the file". Returns
  // nothing if the range exceeds the largest possible file.
  static std::optional<ByteRange> From(uint64_t offset, uint64_t length);
  uint64_t length() const { return last == kEnd ? 0 : last - begin + 1; }
  bool Overlaps(const ByteRange& other) const { return begin <= other.last && other.begin <= last; }
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

struct HeldRange {
  ByteRange range;
  bool exclusive = false;
  friend bool operator==(const HeldRange&, const HeldRange&) = default;
};

// Disjoint ranges in order; adjacent ranges of the same kind are merged.
class HeldRanges {
 public:
  // Adds a range. It replaces the parts of held ranges that it overlaps.
  void Hold(const ByteRange& range, bool exclusive);
  void Release(const ByteRange& range);

  // The first held range that prevents another owner from locking `range`; null if there is none.
  const HeldRange* Conflict(const ByteRange& range, bool exclusive) const;
  // The held parts of `range`.
  HeldRanges Within(const ByteRange& range) const;
  const std::vector<HeldRange>& all() const { return held_; }

 private:
  std::vector<HeldRange> held_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_LOCK_HELD_RANGES_H_
