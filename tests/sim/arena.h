// Memory of a simulated host beside what it must hold.
#ifndef POLLUX_TESTS_SIM_ARENA_H_
#define POLLUX_TESTS_SIM_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "stack/base/random.h"

namespace pollux::sim {

// Filled with random bytes: every byte that nobody may write is a canary. Lies at the same address
// in every run, so that a seed repeats to the last bit of each packet.
class Arena {
 public:
  // `slot` tells the arenas of one process apart.
  Arena(size_t bytes, unsigned slot, Random& random);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  uint8_t* at(size_t offset) { return memory_ + offset; }
  // `length` bytes from `data` are what it must hold at `offset` from now on.
  void Expect(size_t offset, const uint8_t* data, size_t length);
  bool HoldsWhatIsExpected(size_t offset, size_t length) const;
  // Each of `length` bytes at `offset` is what it must be or the one of `data`.
  bool HoldsOldOrNew(size_t offset, const uint8_t* data, size_t length) const;
  // Where it does not hold what it must, in words; empty when it does.
  std::string Difference() const;

 private:
  uint8_t* memory_;
  std::vector<uint8_t> expected_;
};

}  // namespace pollux::sim

#endif  // POLLUX_TESTS_SIM_ARENA_H_
