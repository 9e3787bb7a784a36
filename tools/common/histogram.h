// A histogram of latencies with log-linear buckets.
#ifndef POLLUX_TOOLS_COMMON_HISTOGRAM_H_
#define POLLUX_TOOLS_COMMON_HISTOGRAM_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace pollux::tools {

// 64 buckets for each power of two: a percentile is at most 1/64 (1.6 %) above the true value. Does
// not allocate memory after construction.
class Histogram {
 public:
  void Record(uint64_t value_ns) {
    ++buckets_[Index(value_ns)];
    ++count_;
    if (value_ns > max_) max_ = value_ns;
  }
  // Adds the values of `other`.
  void Add(const Histogram& other) {
    for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
    count_ += other.count_;
    max_ = other.max_ > max_ ? other.max_ : max_;
  }
  uint64_t count() const { return count_; }
  uint64_t max() const { return max_; }

  // The smallest bucket bound that is not exceeded by at least `fraction` (0..1] of the values; 0
  // if the histogram is empty.
  uint64_t Percentile(double fraction) const {
    if (count_ == 0) return 0;
    auto rank = static_cast<uint64_t>(fraction * static_cast<double>(count_));
    if (static_cast<double>(rank) < fraction * static_cast<double>(count_)) ++rank;
    if (rank == 0) rank = 1;
    uint64_t seen = 0;
    for (size_t i = 0; i < buckets_.size(); ++i) {
      seen += buckets_[i];
      if (seen >= rank) return UpperBound(i) < max_ ? UpperBound(i) : max_;
    }
    return max_;
  }

  // Calls `visit(bound, count)` for each bucket that holds values, smallest first. The bucket has
  // `count` values, which are at most `bound` and greater than the previous bucket's bound.
  template <class Visit>
  void ForEach(Visit visit) const {
    for (size_t i = 0; i < buckets_.size(); ++i) {
      if (buckets_[i] != 0) visit(UpperBound(i) < max_ ? UpperBound(i) : max_, buckets_[i]);
    }
  }

 private:
  static constexpr int kSubBits = 6;
  static constexpr size_t kSub = size_t{1} << kSubBits;
  static constexpr size_t Index(uint64_t value) {
    if (value < kSub) return static_cast<size_t>(value);
    const int shift = std::bit_width(value) - kSubBits - 1;
    return (static_cast<size_t>(shift) + 1) * kSub + ((value >> shift) & (kSub - 1));
  }
  static constexpr uint64_t UpperBound(size_t index) {
    if (index < kSub) return index;
    const int shift = static_cast<int>(index / kSub) - 1;
    return (((index % kSub) + kSub + 1) << shift) - 1;
  }

  std::array<uint64_t, (64 - kSubBits + 1) * kSub> buckets_{};
  uint64_t count_ = 0;
  uint64_t max_ = 0;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_HISTOGRAM_H_
