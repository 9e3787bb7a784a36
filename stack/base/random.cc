#include "stack/base/random.h"

#include <sodium.h>

#include <cstring>

namespace pollux {

Random::Random(uint64_t seed) : seed_{} { std::memcpy(seed_.data(), &seed, sizeof seed); }

Random::Seed Random::SystemSeed() {
  Seed seed;
  randombytes_buf(seed.data(), seed.size());
  return seed;
}

void Random::Refill() {
  static_assert(crypto_stream_chacha20_KEYBYTES == sizeof(Seed));
  uint8_t nonce[crypto_stream_chacha20_NONCEBYTES] = {};
  static_assert(sizeof nonce == sizeof block_);
  std::memcpy(nonce, &block_, sizeof block_);
  ++block_;
  crypto_stream_chacha20(buffer_.data(), buffer_.size(), nonce, seed_.data());
  used_ = 0;
}

uint64_t Random::Next64() {
  if (used_ == kBufferBytes) Refill();
  uint64_t value;
  std::memcpy(&value, buffer_.data() + used_, sizeof value);
  // A seed taken from memory later must not give away numbers already handed out of this buffer.
  std::memset(buffer_.data() + used_, 0, sizeof value);
  used_ += sizeof value;
  return value;
}

uint64_t Random::Below(uint64_t bound) {
  // Multiply-shift; the bias is below bound / 2^64.
  return static_cast<uint64_t>((static_cast<unsigned __int128>(Next64()) * bound) >> 64);
}

bool Random::Chance(double p) { return static_cast<double>(Next64() >> 11) * 0x1p-53 < p; }

}  // namespace pollux
