#include "stack/wire/crc32.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>
#include <vector>

#include "stack/base/random.h"

namespace pollux::wire {
namespace {

std::vector<uint8_t> RandomBytes(size_t n) {
  Random random(n);
  std::vector<uint8_t> bytes(n);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.Next32());
  return bytes;
}

uint32_t Zlib(uint32_t crc, const uint8_t* data, size_t n) {
  return static_cast<uint32_t>(crc32(crc, data, static_cast<uInt>(n)));
}

// Those that this machine has; the rest cannot run here.
class CrcKernelTest : public ::testing::TestWithParam<CrcKernel> {
 protected:
  void SetUp() override {
    if (!Has(GetParam())) GTEST_SKIP() << "this processor lacks the instructions";
  }
};

TEST_P(CrcKernelTest, AgreesWithZlibAtEveryShortLengthAndAlignment) {
  constexpr size_t kAlignments = 65, kMax = 600;
  const auto bytes = RandomBytes(kAlignments + kMax);
  for (size_t start = 0; start < kAlignments; ++start) {
    for (size_t n = 0; n <= kMax; ++n) {
      const uint8_t* at = bytes.data() + start;
      ASSERT_EQ(Crc32By(GetParam(), 0x2144DF1C, at, n), Zlib(0x2144DF1C, at, n))
          << start << " " << n;
    }
  }
}

// Up to what no frame exceeds, from anywhere, in one piece and in several.
TEST_P(CrcKernelTest, AgreesWithZlibForEveryLengthInPieces) {
  constexpr size_t kMax = 5000, kAlignments = 64, kPieces = 4;
  const auto bytes = RandomBytes(kAlignments + kMax);
  Random random(1);
  for (size_t n = 0; n <= kMax; ++n) {
    const uint8_t* at = bytes.data() + random.Below(kAlignments);
    const uint32_t start = random.Next32();
    const uint32_t expected = Zlib(start, at, n);
    ASSERT_EQ(Crc32By(GetParam(), start, at, n), expected) << n;
    uint32_t crc = start;
    size_t done = 0;
    for (size_t piece = 1; piece < kPieces; ++piece) {
      const size_t end = done + random.Below(n - done + 1);
      crc = Crc32By(GetParam(), crc, at + done, end - done);
      done = end;
    }
    ASSERT_EQ(Crc32By(GetParam(), crc, at + done, n - done), expected) << n;
  }
}

// What stands on both sides of the data is not read: each buffer is as long as its data.
TEST_P(CrcKernelTest, ReadsOnlyTheData) {
  for (size_t n = 1; n <= 300; ++n) {
    const auto bytes = RandomBytes(n);
    ASSERT_EQ(Crc32By(GetParam(), 0, bytes.data(), n), Zlib(0, bytes.data(), n)) << n;
  }
}

INSTANTIATE_TEST_SUITE_P(All, CrcKernelTest, ::testing::ValuesIn(kCrcKernels),
                         [](const auto& instance) { return std::string(Name(instance.param)); });

TEST(Crc32Test, AgreesWithZlib) {
  const auto bytes = RandomBytes(600);
  for (size_t n = 0; n <= bytes.size(); ++n) {
    ASSERT_EQ(Crc32(7, bytes.data(), n), Zlib(7, bytes.data(), n)) << n;
  }
}

}  // namespace
}  // namespace pollux::wire
