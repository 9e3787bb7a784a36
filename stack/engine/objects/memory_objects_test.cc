#include "stack/engine/objects/memory_objects.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace pollux::engine {
namespace {

class MemoryObjectsTest : public ::testing::Test {
 protected:
  MemoryObjectsTest() { pd_ = objects_.AllocPd().value(); }

  Random random_{Random::Seed{}};
  MemoryObjects objects_{2, 4, &random_};
  memory::ProtectionDomain* pd_;
  uint8_t memory_[64] = {};
};

TEST_F(MemoryObjectsTest, ProtectionDomainsAreBoundedAndFreedWhenUnused) {
  memory::ProtectionDomain* second = objects_.AllocPd().value();
  EXPECT_NE(second->handle, pd_->handle);
  EXPECT_EQ(objects_.AllocPd().status().code(), absl::StatusCode::kResourceExhausted);
  const auto region = objects_.RegMr(second, memory_, sizeof memory_, 0);
  ASSERT_TRUE(region.ok());
  EXPECT_EQ(objects_.DeallocPd(second).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(objects_.DeregMr(*region).ok());
  EXPECT_TRUE(objects_.DeallocPd(second).ok());
  EXPECT_EQ(objects_.domains(), 1u);
}

TEST_F(MemoryObjectsTest, NothingIsCreatedInADomainOfAnotherWorker) {
  MemoryObjects others(1, 1, &random_);
  memory::ProtectionDomain* foreign = others.AllocPd().value();
  constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
  for (memory::ProtectionDomain* pd : {foreign, static_cast<memory::ProtectionDomain*>(nullptr)}) {
    EXPECT_FALSE(objects_.Owns(pd));
    EXPECT_EQ(objects_.DeallocPd(pd).code(), kInvalid);
    EXPECT_EQ(objects_.RegMr(pd, memory_, 1, 0).status().code(), kInvalid);
    EXPECT_EQ(objects_.AllocFastMr(pd, 1).status().code(), kInvalid);
    EXPECT_EQ(objects_.RegFastMr(pd, memory_, 1, 0).status().code(), kInvalid);
    EXPECT_EQ(objects_.AllocMw(pd, IBV_MW_TYPE_1).status().code(), kInvalid);
  }
  EXPECT_EQ(objects_.regions().size(), 0u);
}

TEST_F(MemoryObjectsTest, OnlyWindowTypesOneAndTwoAreAllocated) {
  EXPECT_EQ(objects_.AllocMw(pd_, static_cast<ibv_mw_type>(3)).status().code(),
            absl::StatusCode::kInvalidArgument);
  ibv_mw* window = objects_.AllocMw(pd_, IBV_MW_TYPE_2).value();
  EXPECT_EQ(objects_.windows(), 1u);
  EXPECT_EQ(objects_.BindMw(nullptr, window, {}), EINVAL) << "work requests bind those of type 2";
  window->rkey ^= 1;  // the consumer's to change
  EXPECT_TRUE(objects_.DeallocMw(window).ok());
  EXPECT_EQ(objects_.DeallocMw(window).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(objects_.regions().size(), 0u);
}

}  // namespace
}  // namespace pollux::engine
