#include "stack/transport/message/scatter.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace pollux::transport {
namespace {

class ScatterTest : public ::testing::Test {
 protected:
  ScatterTest() {
    std::iota(source_, source_ + sizeof source_, 1);
    key_ = regions_.Register(&pd_, memory_, sizeof memory_, IBV_ACCESS_LOCAL_WRITE)->key;
  }
  ibv_sge Element(uint32_t offset, uint32_t length) {
    return {reinterpret_cast<uint64_t>(memory_ + offset), length, key_};
  }
  Random random_{1};
  memory::RegionTable regions_{8, &random_};
  memory::ProtectionDomain pd_{.regions = &regions_, .handle = 1};
  uint8_t source_[8];
  uint8_t memory_[32] = {};
  uint32_t key_;
};

TEST_F(ScatterTest, WritesAcrossElementsFromAnOffset) {
  const ibv_sge list[] = {Element(0, 4), Element(8, 0), Element(16, 8)};
  ASSERT_TRUE(Scatter(pd_, list, 3, 2, source_, 6));
  EXPECT_EQ(std::vector<uint8_t>(memory_, memory_ + 5), (std::vector<uint8_t>{0, 0, 1, 2, 0}));
  EXPECT_EQ(std::vector<uint8_t>(memory_ + 16, memory_ + 21),
            (std::vector<uint8_t>{3, 4, 5, 6, 0}));
}

TEST_F(ScatterTest, AListMayBeFullAndNotTooShort) {
  const ibv_sge list[] = {Element(0, 8)};
  EXPECT_TRUE(Scatter(pd_, list, 1, 0, source_, 8));
  EXPECT_FALSE(Scatter(pd_, list, 1, 1, source_, 8));
}

TEST_F(ScatterTest, RefusesReadOnlyAndForeignMemory) {
  uint8_t guarded[8] = {};
  const uint32_t read_only = regions_.Register(&pd_, guarded, sizeof guarded, 0)->key;
  const ibv_sge list[] = {{reinterpret_cast<uint64_t>(guarded), 8, read_only}};
  EXPECT_FALSE(Scatter(pd_, list, 1, 0, source_, 8));
  memory::ProtectionDomain other{.regions = &regions_, .handle = 2};
  const ibv_sge ours[] = {Element(0, 8)};
  EXPECT_FALSE(Scatter(other, ours, 1, 0, source_, 8));
  for (uint8_t byte : guarded) EXPECT_EQ(byte, 0);
  for (uint8_t byte : memory_) EXPECT_EQ(byte, 0);
}

TEST_F(ScatterTest, ZeroBytesNeedNoElements) {
  EXPECT_TRUE(Scatter(pd_, nullptr, 0, 0, nullptr, 0));
}

}  // namespace
}  // namespace pollux::transport
