#include "stack/base/memory_reserve.h"

#include <gtest/gtest.h>

#include <new>

namespace pollux {
namespace {

class MemoryReserveTest : public testing::Test {
 protected:
  MemoryReserveTest() { EXPECT_TRUE(MemoryReserve::Fill()); }
  ~MemoryReserveTest() override { EXPECT_TRUE(MemoryReserve::Fill()); }
};

TEST_F(MemoryReserveTest, ReleasedPiecesAreAllocatedAgainWhenPossible) {
  EXPECT_TRUE(MemoryReserve::IsWhole());
  EXPECT_TRUE(MemoryReserve::GiveUpPiece());
  EXPECT_TRUE(MemoryReserve::IsWhole());
  {
    const MemoryReserve::ShortageForTest shortage;
    EXPECT_TRUE(MemoryReserve::IsWhole()) << "nothing was given up";
    EXPECT_TRUE(MemoryReserve::GiveUpPiece());
    EXPECT_FALSE(MemoryReserve::IsWhole());
  }
  EXPECT_TRUE(MemoryReserve::IsWhole());
}

TEST_F(MemoryReserveTest, IsLowOnceMoreThanHalfIsReleased) {
  const MemoryReserve::ShortageForTest shortage;
  for (uint32_t gone = 0; gone <= MemoryReserve::kPieces; ++gone) {
    EXPECT_EQ(MemoryReserve::IsWhole(), gone == 0);
    EXPECT_EQ(MemoryReserve::IsLow(), gone > MemoryReserve::kPieces / 2) << gone;
    EXPECT_EQ(MemoryReserve::GiveUpPiece(), gone < MemoryReserve::kPieces);
  }
}

TEST_F(MemoryReserveTest, OperatorNewReleasesPiecesUntilNoneIsLeft) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers have an operator new of their own";
#endif
  const std::new_handler before = std::set_new_handler(nullptr);
  MemoryReserve::Install();
  {
    const MemoryReserve::ShortageForTest shortage;
    volatile size_t bytes = size_t{1} << 60;  // more than there is anywhere
    EXPECT_EQ(::operator new(bytes, std::nothrow), nullptr);
    EXPECT_FALSE(MemoryReserve::GiveUpPiece());
  }
  std::set_new_handler(before);
}

void OwnHandler() {}

TEST_F(MemoryReserveTest, ANewHandlerOfTheProgramIsKept) {
  const std::new_handler before = std::set_new_handler(OwnHandler);
  MemoryReserve::Install();
  EXPECT_EQ(std::set_new_handler(before), OwnHandler);
}

}  // namespace
}  // namespace pollux
