#include "tests/sim/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_format.h"

namespace pollux::sim {

Arena::Arena(size_t bytes, unsigned slot, Random& random) : expected_(bytes) {
  constexpr uint64_t kFirst = 0x2000'0000'0000;
  constexpr uint64_t kApart = uint64_t{1} << 32;
  void* wanted = reinterpret_cast<void*>(kFirst + slot * kApart);
  void* memory = mmap(wanted, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (memory != wanted) std::abort();  // another arena has the slot
  memory_ = static_cast<uint8_t*>(memory);
  size_t filled = 0;
  while (filled < bytes) {
    const uint64_t word = random.Next64();
    const size_t piece = std::min(sizeof word, bytes - filled);
    std::memcpy(&expected_[filled], &word, piece);
    filled += piece;
  }
  std::copy(expected_.begin(), expected_.end(), memory_);
}

Arena::~Arena() { munmap(memory_, expected_.size()); }

void Arena::Expect(size_t offset, const uint8_t* data, size_t length) {
  std::copy_n(data, length, expected_.begin() + static_cast<ptrdiff_t>(offset));
}

bool Arena::HoldsWhatIsExpected(size_t offset, size_t length) const {
  return std::equal(memory_ + offset, memory_ + offset + length,
                    expected_.begin() + static_cast<ptrdiff_t>(offset));
}

bool Arena::HoldsOldOrNew(size_t offset, const uint8_t* data, size_t length) const {
  for (size_t i = 0; i < length; ++i) {
    const uint8_t byte = memory_[offset + i];
    if (byte != expected_[offset + i] && byte != data[i]) return false;
  }
  return true;
}

std::string Arena::Difference() const {
  const auto found = std::mismatch(expected_.begin(), expected_.end(), memory_);
  if (found.first == expected_.end()) return "";
  return absl::StrFormat("byte %d of %d is 0x%02x instead of 0x%02x",
                         found.first - expected_.begin(), expected_.size(), *found.second,
                         *found.first);
}

}  // namespace pollux::sim
