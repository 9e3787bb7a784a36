#include "stack/memory/protection_domain.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <map>
#include <set>
#include <vector>

namespace pollux::memory {
namespace {

class RegionTableTest : public ::testing::Test {
 protected:
  AccessResult Check(uint32_t key, uint64_t offset, uint64_t length, int needed = 0) {
    return table_.Check(pd_, key, reinterpret_cast<uint64_t>(buffer_) + offset, length, needed,
                        &at_);
  }
  Random random_{1};
  RegionTable table_{16, &random_};
  ProtectionDomain pd_{.regions = &table_, .handle = 1};
  ProtectionDomain other_{.regions = &table_, .handle = 2};
  uint8_t buffer_[64];
  uint8_t* at_ = nullptr;
};

// One of a worker has room for millions of bytes of slots.
TEST_F(RegionTableTest, PagesAreAllocatedAsSlotsAreUsed) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "this allocator has pages of its own for what it gives";
#endif
  const auto faults = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
  };
  const long before = faults();
  RegionTable large(65536, &random_);
  ProtectionDomain pd{.regions = &large, .handle = 3};
  ASSERT_TRUE(large.Register(&pd, buffer_, 64, 0).ok());
  EXPECT_LT(faults() - before, 64);
}

// RFC 5042 section 6.2.1
TEST_F(RegionTableTest, AccessBeyondTheRegionIsRefused) {
  const uint32_t key = table_.Register(&pd_, buffer_, 64, IBV_ACCESS_LOCAL_WRITE)->key;
  EXPECT_EQ(Check(key, 0, 64), AccessResult::kOk);
  EXPECT_EQ(at_, buffer_);
  EXPECT_EQ(Check(key, 63, 1), AccessResult::kOk);
  EXPECT_EQ(at_, buffer_ + 63);
  EXPECT_EQ(Check(key, 0, 65), AccessResult::kOutOfBounds);
  EXPECT_EQ(Check(key, 63, 2), AccessResult::kOutOfBounds);
  EXPECT_EQ(Check(key, 64, 1), AccessResult::kOutOfBounds);
  EXPECT_EQ(Check(key, -1, 1), AccessResult::kOutOfBounds);
  // A length that would wrap around the address space.
  EXPECT_EQ(Check(key, 1, ~0ull), AccessResult::kOutOfBounds);
}

// RFC 5042 section 6.1.1 and section 6.3.5
TEST_F(RegionTableTest, AccessFlagsAndDomainAreChecked) {
  const uint32_t key =
      table_.Register(&pd_, buffer_, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)->key;
  EXPECT_EQ(Check(key, 0, 1, IBV_ACCESS_REMOTE_READ), AccessResult::kOk);
  EXPECT_EQ(Check(key, 0, 1, IBV_ACCESS_REMOTE_WRITE), AccessResult::kNotAllowed);
  EXPECT_EQ(table_.Check(other_, key, reinterpret_cast<uint64_t>(buffer_), 1, 0, &at_),
            AccessResult::kWrongDomain);
}

TEST_F(RegionTableTest, ZeroBytesNeedNoKey) {
  EXPECT_EQ(Check(0xDEADBEEF, 0, 0, IBV_ACCESS_REMOTE_WRITE), AccessResult::kOk);
}

// RFC 5042 section 6.2.2
TEST_F(RegionTableTest, AWrongOrDeregisteredKeyIsRefused) {
  const uint32_t key = table_.Register(&pd_, buffer_, 64, 0)->key;
  EXPECT_EQ(Check(key ^ 1, 0, 1), AccessResult::kNoSuchKey);
  EXPECT_EQ(pd_.use_count, 1u);
  ASSERT_TRUE(table_.Deregister(key).ok());
  EXPECT_EQ(pd_.use_count, 0u);
  EXPECT_EQ(Check(key, 0, 1), AccessResult::kNoSuchKey);
  EXPECT_EQ(table_.Deregister(key).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Check(0, 0, 1), AccessResult::kNoSuchKey);
}

TEST_F(RegionTableTest, AReregisteredRegionKeepsOnlyItsKey) {
  const uint32_t key = table_.Register(&pd_, buffer_, 32, 0)->key;
  const uint64_t start = reinterpret_cast<uint64_t>(buffer_);
  // Nothing has changed after an error.
  EXPECT_FALSE(table_.Reregister(key ^ 1, &other_, buffer_, 64, start, 0).ok());
  EXPECT_FALSE(table_.Reregister(key, &other_, buffer_, ~0ull, start, 0).ok());
  EXPECT_FALSE(table_.Reregister(key, &other_, buffer_, 64, start, IBV_ACCESS_REMOTE_WRITE).ok());
  EXPECT_EQ(Check(key, 0, 32), AccessResult::kOk);
  EXPECT_EQ(pd_.use_count, 1u);

  const auto changed =
      table_.Reregister(key, &other_, buffer_ + 32, 16, 0x1000, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ(changed->key, key);
  EXPECT_EQ(pd_.use_count, 0u);
  EXPECT_EQ(other_.use_count, 1u);
  EXPECT_EQ(table_.size(), 1u);
  EXPECT_EQ(table_.Check(pd_, key, 0x1000, 1, 0, &at_), AccessResult::kWrongDomain);
  EXPECT_EQ(table_.Check(other_, key, start, 1, 0, &at_), AccessResult::kOutOfBounds);
  EXPECT_EQ(table_.Check(other_, key, 0x1000, 16, IBV_ACCESS_LOCAL_WRITE, &at_), AccessResult::kOk);
  EXPECT_EQ(at_, buffer_ + 32);
  EXPECT_EQ(table_.Check(other_, key, 0x1000, 17, 0, &at_), AccessResult::kOutOfBounds);
  EXPECT_TRUE(table_.Deregister(key).ok());
  EXPECT_EQ(other_.use_count, 0u);
}

TEST_F(RegionTableTest, FastAndBoundRegionsAreNotReregistered) {
  const uint64_t start = reinterpret_cast<uint64_t>(buffer_);
  const uint32_t fast = table_.AllocFast(&pd_, 64)->key;
  EXPECT_EQ(table_.Reregister(fast, &pd_, buffer_, 64, start, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
  const uint32_t key =
      table_.Register(&pd_, buffer_, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)->key;
  const uint32_t window = table_.AllocWindow(&pd_, IBV_MW_TYPE_1)->key;
  ASSERT_TRUE(table_.Bind(pd_, 1,
                          {.key = window,
                           .region_key = key,
                           .address = start,
                           .length = 64,
                           .access = IBV_ACCESS_REMOTE_WRITE}));
  EXPECT_EQ(table_.Reregister(key, &pd_, buffer_, 64, start, 0).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(RegionTableTest, RegistrationAboveTheMaximumIsRefused) {
  std::set<uint32_t> keys;
  for (int i = 0; i < 16; ++i) {
    keys.insert(table_.Register(&pd_, buffer_, 64, 0)->key);
  }
  EXPECT_EQ(keys.size(), 16u);
  EXPECT_EQ(table_.Register(&pd_, buffer_, 64, 0).status().code(),
            absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(table_.Deregister(*keys.begin()).ok());
  EXPECT_TRUE(table_.Register(&pd_, buffer_, 64, 0).ok());
}

// As rxe, for memory that is not persistent.
TEST_F(RegionTableTest, NoMemoryTakesPersistentFlushes) {
  constexpr int kBoth = kAccessFlushGlobal | kAccessFlushPersistent;
  for (const int access : {kAccessFlushPersistent, kBoth}) {
    EXPECT_EQ(table_.Register(&pd_, buffer_, 64, access).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  const absl::StatusOr<MemoryRegion> region =
      table_.Register(&pd_, buffer_, 64, kAccessFlushGlobal);
  ASSERT_TRUE(region.ok()) << region.status();
  EXPECT_EQ(table_.Reregister(region->key, &pd_, buffer_, 64, region->iova, kBoth).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Check(region->key, 0, 64, kAccessFlushGlobal), AccessResult::kOk);
  EXPECT_EQ(Check(region->key, 0, 64, kBoth), AccessResult::kNotAllowed);
}

TEST_F(RegionTableTest, RemoteWriteNeedsLocalWrite) {
  EXPECT_FALSE(table_.Register(&pd_, buffer_, 64, IBV_ACCESS_REMOTE_WRITE).ok());
  EXPECT_FALSE(table_.Register(&pd_, buffer_, 64, IBV_ACCESS_REMOTE_ATOMIC).ok());
  EXPECT_FALSE(table_.Register(&pd_, buffer_, ~0ull, IBV_ACCESS_LOCAL_WRITE).ok());
}

TEST_F(RegionTableTest, TheIovaIsTheAddressOfTheFirstByte) {
  const MemoryRegion region =
      *table_.RegisterIova(&pd_, buffer_, 64, 0x1000, IBV_ACCESS_LOCAL_WRITE);
  EXPECT_EQ(table_.Check(pd_, region.key, 0x1010, 8, 0, &at_), AccessResult::kOk);
  EXPECT_EQ(at_, buffer_ + 0x10);
  EXPECT_EQ(table_.Check(pd_, region.key, 0xFFF, 8, 0, &at_), AccessResult::kOutOfBounds);
}

// RFC 8166 section 8.1.2: one key says nothing of the next.
TEST_F(RegionTableTest, KeysAreNotPredictable) {
  std::set<uint32_t> steps;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    Random random(seed);
    RegionTable table(64, &random);
    ProtectionDomain pd{.regions = &table, .handle = 1};
    uint8_t byte = 0;
    uint32_t last = 0;
    for (int i = 0; i < 32; ++i) {
      const uint32_t key = table.Register(&pd, &byte, 1, 0)->key;
      steps.insert(key - last);
      last = key;
    }
  }
  EXPECT_EQ(steps.size(), 8u * 32);
}

// RFC 8166 section 8.1.2
TEST_F(RegionTableTest, KeysDoNotRepeatUnderChurn) {
  std::map<uint32_t, int> seen;
  for (int i = 0; i < 20000; ++i) {
    const uint32_t key = table_.Register(&pd_, buffer_, 64, 0)->key;
    ++seen[key];
    ASSERT_TRUE(table_.Deregister(key).ok());
  }
  // 20,000 draws of 32 bits: a repeat now and then is chance, many are a defect.
  EXPECT_GT(seen.size(), 19990u);
}

}  // namespace
}  // namespace pollux::memory
