// The only source of random numbers: a ChaCha20 key stream (libsodium). Keys, PSNs, communication
// IDs and QPN generations are therefore unpredictable, and a given seed repeats them exactly.
#ifndef POLLUX_STACK_BASE_RANDOM_H_
#define POLLUX_STACK_BASE_RANDOM_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace pollux {

// Owned by one worker; not thread-safe. It takes no lock and no heap memory, and makes no system
// call after construction.
class Random {
 public:
  using Seed = std::array<uint8_t, 32>;

  explicit Random(const Seed& seed) : seed_(seed) {}
  // For simulation: the stream depends on `seed` alone.
  explicit Random(uint64_t seed);
  // Reads a seed from the operating system, by system calls.
  static Seed SystemSeed();

  uint64_t Next64();
  uint32_t Next32() { return static_cast<uint32_t>(Next64()); }
  // Uniform in [0, bound); bound > 0.
  uint64_t Below(uint64_t bound);
  // True with probability `p` in [0, 1].
  bool Chance(double p);

 private:
  void Refill();

  static constexpr size_t kBufferBytes = 512;  // eight ChaCha20 blocks per refill
  Seed seed_;
  uint64_t block_ = 0;
  size_t used_ = kBufferBytes;
  alignas(8) std::array<uint8_t, kBufferBytes> buffer_{};
};

}  // namespace pollux

#endif  // POLLUX_STACK_BASE_RANDOM_H_
