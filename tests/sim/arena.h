// Memory of a simulated host, and its expected contents.
#ifndef POLLUX_TESTS_SIM_ARENA_H_
#define POLLUX_TESTS_SIM_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "stack/base/random.h"

namespace pollux::sim {

// Initially filled with random bytes, so that every byte that must not be written is a canary. Has
// the same address in every run, so that a seed reproduces each bit of each packet.
class Arena {
 public:
  // `slot` distinguishes the arenas of one process.
  Arena(size_t bytes, unsigned slot, Random& random);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  uint8_t* at(size_t offset) { return memory_ + offset; }
  // From now on, `length` bytes from `data` are expected at `offset`.
  void Expect(size_t offset, const uint8_t* data, size_t length);
  bool HoldsWhatIsExpected(size_t offset, size_t length) const;
  // Whether each of `length` bytes at `offset` is either the expected one or that of `data`.
  bool HoldsOldOrNew(size_t offset, const uint8_t* data, size_t length) const;
  // Describes where the contents differ from the expected ones; empty if they do not.
  std::string Difference() const;

 private:
  uint8_t* memory_;
  std::vector<uint8_t> expected_;
};

}  // namespace pollux::sim

#endif  // POLLUX_TESTS_SIM_ARENA_H_
