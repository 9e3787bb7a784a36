// What one owner has locked of one file.
#ifndef POLLUX_NFS_LOCK_HELD_RANGES_H_
#define POLLUX_NFS_LOCK_HELD_RANGES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace pollux::nfs {

// Bytes of a file, at least one.
struct ByteRange {
  static constexpr uint64_t kEnd = INT64_MAX;  // no file reaches it: to the end, however far

  uint64_t begin = 0;
  uint64_t last = kEnd;

  // Of NLM: `length` 0 is to the end. Nothing when it reaches beyond what a file can be.
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

// Disjoint ranges in order; neighbours of one kind are one.
class HeldRanges {
 public:
  // In place of what was held there.
  void Hold(const ByteRange& range, bool exclusive);
  void Release(const ByteRange& range);

  // The first that keeps another owner from `range`; null for none.
  const HeldRange* Conflict(const ByteRange& range, bool exclusive) const;
  // What of it is held.
  HeldRanges Within(const ByteRange& range) const;
  const std::vector<HeldRange>& all() const { return held_; }

 private:
  std::vector<HeldRange> held_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_LOCK_HELD_RANGES_H_
