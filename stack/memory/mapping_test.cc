// Fast regions and windows.
#include <gtest/gtest.h>

#include "stack/memory/protection_domain.h"

namespace pollux::memory {
namespace {

constexpr uint32_t kQpn = 0x123;
constexpr int kRemoteWrite = IBV_ACCESS_REMOTE_WRITE;
constexpr int kBindable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;

class MappingTest : public ::testing::Test {
 protected:
  AccessResult Remote(uint32_t key, uint64_t offset, uint64_t length, int needed = kRemoteWrite,
                      uint32_t qpn = kQpn) {
    return table_.CheckRemote(pd_, qpn, key, Address(offset), length, needed, &at_);
  }
  uint64_t Address(uint64_t offset = 0) { return reinterpret_cast<uint64_t>(buffer_) + offset; }
  static uint32_t NextVariant(uint32_t key) { return (key & ~0xFFu) | ((key + 1) & 0xFF); }
  Mapping Window(uint32_t key, uint32_t region_key, uint64_t offset, uint64_t length,
                 int access = kRemoteWrite) {
    return {.key = key,
            .region_key = region_key,
            .address = Address(offset),
            .length = length,
            .access = access};
  }
  Random random_{1};
  RegionTable table_{16, &random_};
  ProtectionDomain pd_{.regions = &table_, .handle = 1};
  ProtectionDomain other_{.regions = &table_, .handle = 2};
  uint8_t buffer_[64];
  uint8_t* at_ = nullptr;
};

TEST_F(MappingTest, RegisteredFastRegionIsMapped) {
  const int access = IBV_ACCESS_LOCAL_WRITE | kRemoteWrite;
  for (const bool invalidated : {true, false}) {
    const absl::StatusOr<MemoryRegion> region = table_.RegisterFast(&pd_, buffer_ + 8, 32, access);
    ASSERT_TRUE(region.ok()) << region.status();
    EXPECT_EQ(region->iova, Address(8));
    EXPECT_EQ(Remote(region->key, 8, 32), AccessResult::kOk);
    EXPECT_EQ(at_, buffer_ + 8);
    EXPECT_EQ(Remote(region->key, 8, 33), AccessResult::kOutOfBounds);
    EXPECT_FALSE(table_.InvalidateRemote(other_, kQpn, region->key));
    if (invalidated) {
      EXPECT_TRUE(table_.InvalidateRemote(pd_, kQpn, region->key));
      EXPECT_EQ(Remote(region->key, 8, 1), AccessResult::kNoSuchKey);
    }
    EXPECT_TRUE(table_.Deregister(region->key).ok());
    EXPECT_EQ(Remote(region->key, 8, 1), AccessResult::kNoSuchKey);
  }
  // Its owner and the peer invalidate it in either order; nothing is mapped anew, and an ordinary
  // fast region that is not mapped is still none for the peer.
  const uint32_t fenced = table_.RegisterFast(&pd_, buffer_, 32, access)->key;
  EXPECT_TRUE(table_.InvalidateLocal(pd_, fenced));
  EXPECT_EQ(Remote(fenced, 0, 1), AccessResult::kNoSuchKey);
  EXPECT_FALSE(table_.InvalidateRemote(other_, kQpn, fenced));
  EXPECT_TRUE(table_.InvalidateRemote(pd_, kQpn, fenced));
  EXPECT_FALSE(table_.Map(pd_, {.key = fenced, .address = Address(0), .length = 32}));
  EXPECT_TRUE(table_.Deregister(fenced).ok());
  EXPECT_FALSE(table_.InvalidateRemote(pd_, kQpn, fenced));
  const uint32_t unmapped = table_.AllocFast(&pd_, 32)->key;
  EXPECT_FALSE(table_.InvalidateRemote(pd_, kQpn, unmapped));
  EXPECT_TRUE(table_.Deregister(unmapped).ok());
  EXPECT_EQ(table_.RegisterFast(&pd_, buffer_, 32, kRemoteWrite).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(table_.size(), 0u);
  for (uint32_t i = 0; i < table_.capacity(); ++i) {
    EXPECT_TRUE(table_.RegisterFast(&pd_, buffer_, 32, access).ok());
  }
  EXPECT_EQ(table_.RegisterFast(&pd_, buffer_, 32, access).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(MappingTest, AFastRegionIsUsableFromMappingToInvalidation) {
  const uint32_t key = table_.AllocFast(&pd_, 32)->key;
  EXPECT_EQ(Remote(key, 0, 1), AccessResult::kNoSuchKey);
  Mapping mapping{.key = NextVariant(key),
                  .address = Address(8),
                  .length = 32,
                  .iova = Address(8),
                  .access = IBV_ACCESS_LOCAL_WRITE | kRemoteWrite};
  ASSERT_TRUE(table_.Map(pd_, mapping));
  EXPECT_EQ(Remote(key, 8, 1), AccessResult::kNoSuchKey) << "the variant before";
  EXPECT_EQ(Remote(mapping.key, 8, 32), AccessResult::kOk);
  EXPECT_EQ(at_, buffer_ + 8);
  EXPECT_EQ(Remote(mapping.key, 8, 33), AccessResult::kOutOfBounds);
  EXPECT_FALSE(table_.Map(pd_, mapping)) << "mapped already";
  EXPECT_FALSE(table_.InvalidateLocal(other_, mapping.key));
  EXPECT_FALSE(table_.InvalidateLocal(pd_, key));
  ASSERT_TRUE(table_.InvalidateLocal(pd_, mapping.key));
  EXPECT_EQ(Remote(mapping.key, 8, 1), AccessResult::kNoSuchKey);
  EXPECT_FALSE(table_.InvalidateLocal(pd_, mapping.key)) << "not mapped any more";
  mapping.iova = 0x1000;
  EXPECT_TRUE(table_.Map(pd_, mapping));
  EXPECT_EQ(table_.Check(pd_, mapping.key, 0x1000, 1, 0, &at_), AccessResult::kOk);
  EXPECT_TRUE(table_.InvalidateRemote(pd_, kQpn, mapping.key));
  EXPECT_TRUE(table_.Deregister(mapping.key).ok());
  EXPECT_EQ(pd_.use_count, 0u);
}

TEST_F(MappingTest, AFastRegionIsDeregisteredByTheKeyOfItsAllocation) {
  const uint32_t key = table_.AllocFast(&pd_, 32)->key;
  const Mapping mapping{.key = NextVariant(key),
                        .address = Address(),
                        .length = 32,
                        .iova = Address(),
                        .access = IBV_ACCESS_LOCAL_WRITE | kRemoteWrite};
  ASSERT_TRUE(table_.Map(pd_, mapping));
  ASSERT_EQ(Remote(mapping.key, 0, 1), AccessResult::kOk);
  EXPECT_TRUE(table_.Deregister(key).ok());
  EXPECT_EQ(Remote(mapping.key, 0, 1), AccessResult::kNoSuchKey);
  EXPECT_EQ(table_.size(), 0u);
}

TEST_F(MappingTest, FastRegionRefusesInvalidMappings) {
  const uint32_t key = table_.AllocFast(&pd_, 32)->key;
  const Mapping good{.key = key,
                     .address = Address(),
                     .length = 32,
                     .iova = Address(),
                     .access = IBV_ACCESS_LOCAL_WRITE};
  Mapping bad = good;
  bad.length = 33;
  EXPECT_FALSE(table_.Map(pd_, bad));
  bad = good;
  bad.access = kRemoteWrite;
  EXPECT_FALSE(table_.Map(pd_, bad));
  bad = good;
  bad.key ^= 0x100;
  EXPECT_FALSE(table_.Map(pd_, bad));
  bad = good;
  bad.iova = ~0ull;
  EXPECT_FALSE(table_.Map(pd_, bad));
  EXPECT_FALSE(table_.Map(other_, good));
  EXPECT_TRUE(table_.Map(pd_, good));
  const uint32_t plain = table_.Register(&pd_, buffer_, 64, IBV_ACCESS_LOCAL_WRITE)->key;
  EXPECT_FALSE(table_.InvalidateLocal(pd_, plain)) << "registered by a call";
}

TEST_F(MappingTest, WindowOfType1CanBeRebound) {
  const uint32_t region = table_.Register(&pd_, buffer_, 64, kBindable)->key;
  const uint32_t unbound = table_.AllocWindow(&pd_, IBV_MW_TYPE_1)->key;
  EXPECT_EQ(Remote(unbound, 0, 1), AccessResult::kNoSuchKey);
  const uint32_t first = NextVariant(unbound), second = NextVariant(first);
  ASSERT_TRUE(table_.Bind(pd_, kQpn, Window(first, region, 8, 16)));
  EXPECT_EQ(Remote(first, 8, 16), AccessResult::kOk);
  EXPECT_EQ(at_, buffer_ + 8);
  EXPECT_EQ(Remote(first, 8, 16, kRemoteWrite, kQpn + 1), AccessResult::kOk) << "any queue pair";
  EXPECT_EQ(Remote(first, 7, 1), AccessResult::kOutOfBounds);
  EXPECT_EQ(Remote(first, 8, 17), AccessResult::kOutOfBounds);
  EXPECT_EQ(Remote(first, 8, 1, IBV_ACCESS_REMOTE_READ), AccessResult::kNotAllowed);
  EXPECT_EQ(table_.Check(pd_, first, Address(8), 1, 0, &at_), AccessResult::kNoSuchKey)
      << "no lkey";
  EXPECT_EQ(table_.Deregister(region).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(table_.InvalidateLocal(pd_, first));
  ASSERT_TRUE(table_.Bind(pd_, kQpn, Window(second, region, 0, 64)));
  EXPECT_EQ(Remote(first, 8, 1), AccessResult::kNoSuchKey);
  EXPECT_EQ(Remote(second, 0, 64), AccessResult::kOk);
  ASSERT_TRUE(table_.Bind(pd_, kQpn, Window(second, region, 0, 0))) << "unbinds";
  EXPECT_EQ(Remote(second, 0, 1), AccessResult::kNoSuchKey);
  EXPECT_TRUE(table_.Deregister(region).ok());
  EXPECT_TRUE(table_.DeallocWindow(second).ok());
  EXPECT_EQ(table_.DeallocWindow(second).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(pd_.use_count, 0u);
}

// RFC 5042 section 6.1.1
TEST_F(MappingTest, WindowOfType2BelongsToOneQueuePairAndIsReboundAfterInvalidation) {
  const uint32_t region = table_.Register(&pd_, buffer_, 64, kBindable)->key;
  const uint32_t unbound = table_.AllocWindow(&pd_, IBV_MW_TYPE_2)->key;
  EXPECT_FALSE(table_.Bind(pd_, kQpn, Window(unbound, region, 0, 64))) << "the key it had";
  const uint32_t key = NextVariant(unbound);
  ASSERT_TRUE(table_.Bind(pd_, kQpn, Window(key, region, 0, 64)));
  EXPECT_EQ(Remote(key, 0, 64), AccessResult::kOk);
  EXPECT_EQ(Remote(key, 0, 64, kRemoteWrite, kQpn + 1), AccessResult::kWrongDomain);
  EXPECT_FALSE(table_.Bind(pd_, kQpn, Window(NextVariant(key), region, 0, 64)));
  EXPECT_FALSE(table_.InvalidateRemote(pd_, kQpn + 1, key));
  EXPECT_EQ(Remote(key, 0, 64), AccessResult::kOk);
  ASSERT_TRUE(table_.InvalidateRemote(pd_, kQpn, key));
  EXPECT_EQ(Remote(key, 0, 64), AccessResult::kNoSuchKey);
  EXPECT_TRUE(table_.Deregister(region).ok()) << "no window left on it";
}

TEST_F(MappingTest, BindingNeedsTheAccessRightsOfTheRegion) {
  const uint32_t key = NextVariant(table_.AllocWindow(&pd_, IBV_MW_TYPE_2)->key);
  const uint32_t not_bindable = table_.Register(&pd_, buffer_, 64, IBV_ACCESS_LOCAL_WRITE)->key;
  const uint32_t read_only = table_.Register(&pd_, buffer_, 64, IBV_ACCESS_MW_BIND)->key;
  const uint32_t foreign = table_.Register(&other_, buffer_, 64, kBindable)->key;
  const uint32_t good = table_.Register(&pd_, buffer_, 32, kBindable)->key;
  EXPECT_FALSE(table_.Bind(pd_, kQpn, Window(key, not_bindable, 0, 8)));
  EXPECT_FALSE(table_.Bind(pd_, kQpn, Window(key, read_only, 0, 8)));
  EXPECT_FALSE(table_.Bind(pd_, kQpn, Window(key, foreign, 0, 8)));
  EXPECT_FALSE(table_.Bind(pd_, kQpn, Window(key, good, 0, 33)));
  EXPECT_FALSE(table_.Bind(pd_, kQpn, Window(key, key, 0, 8))) << "a window onto itself";
  EXPECT_FALSE(table_.Bind(pd_, kQpn, Window(key, good, 0, 8, IBV_ACCESS_MW_BIND)));
  EXPECT_FALSE(table_.Bind(other_, kQpn, Window(key, good, 0, 8)));
  EXPECT_TRUE(table_.Bind(pd_, kQpn, Window(key, good, 0, 32)));
}

TEST_F(MappingTest, ZeroBasedRegionsAndWindowsStartAtZero) {
  const uint32_t region =
      table_.Register(&pd_, buffer_, 64, kBindable | IBV_ACCESS_ZERO_BASED)->key;
  EXPECT_EQ(table_.Check(pd_, region, 63, 1, 0, &at_), AccessResult::kOk);
  EXPECT_EQ(at_, buffer_ + 63);
  EXPECT_EQ(table_.Check(pd_, region, 64, 1, 0, &at_), AccessResult::kOutOfBounds);
  const uint32_t key = NextVariant(table_.AllocWindow(&pd_, IBV_MW_TYPE_2)->key);
  Mapping window = Window(key, region, 0, 16, kRemoteWrite | IBV_ACCESS_ZERO_BASED);
  window.address = 32;
  ASSERT_TRUE(table_.Bind(pd_, kQpn, window));
  EXPECT_EQ(table_.CheckRemote(pd_, kQpn, key, 15, 1, kRemoteWrite, &at_), AccessResult::kOk);
  EXPECT_EQ(at_, buffer_ + 47);
  EXPECT_EQ(table_.CheckRemote(pd_, kQpn, key, 16, 1, kRemoteWrite, &at_),
            AccessResult::kOutOfBounds);
  window.key = NextVariant(table_.AllocWindow(&pd_, IBV_MW_TYPE_1)->key);
  EXPECT_FALSE(table_.Bind(pd_, kQpn, window)) << "a window of type 1";
}

}  // namespace
}  // namespace pollux::memory
