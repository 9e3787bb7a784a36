#include "nfs/lock/lock_table.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>

#include "nfs/export/file_handle.h"
#include "nfs/lock/nlm.h"

namespace pollux::nfs {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::UnorderedElementsAre;
using Outcome = LockTable::Outcome;

constexpr ByteRange kAll = {.begin = 0, .last = ByteRange::kEnd};

// A file, clients that lock it, and a program of this host that does.
class LockTableTest : public testing::Test {
 protected:
  explicit LockTableTest(const LockLimits& limits = {}) : table_(limits) {}

  void SetUp() override {
    std::string path = std::string(getenv("TEST_TMPDIR")) + "/lockXXXXXX";
    local_ = Fd(mkstemp(path.data()));
    ASSERT_TRUE(local_.ok());
    path_ = path;
  }
  void TearDown() override { unlink(path_.c_str()); }

  Fd Open() const { return Fd(open(path_.c_str(), O_RDWR | O_CLOEXEC)); }
  static LockRequest Of(uint32_t who, ByteRange range = kAll, bool exclusive = true) {
    return {.file = "handle",
            .owner = {.client = {.address = Gid::FromIpv4(who), .name = "host"},
                      .svid = who,
                      .oh = "process"},
            .range = range,
            .exclusive = exclusive};
  }
  Outcome Lock(const LockRequest& request, bool wait = false) {
    return table_.Lock(request, wait, Open());
  }
  // Whether a program of this host gets what it asks.
  bool LocallyLocked(ByteRange range, int type = F_WRLCK) {
    struct flock lock = {};
    lock.l_type = static_cast<short>(type);
    lock.l_start = static_cast<off_t>(range.begin);
    lock.l_len = static_cast<off_t>(range.length());
    return fcntl(local_.get(), F_OFD_SETLK, &lock) == 0;
  }
  std::vector<uint32_t> Granted() {
    std::vector<uint32_t> owners;
    for (const LockTable::Grant& grant : table_.TakeGrants()) {
      owners.push_back(grant.request.owner.svid);
      numbers_.push_back(grant.number);
    }
    return owners;
  }

  std::string path_;
  Fd local_;
  LockTable table_;
  std::vector<uint64_t> numbers_;
};

TEST_F(LockTableTest, SharedLocksCoexistAndExclusiveLocksConflict) {
  EXPECT_EQ(Lock(Of(1, {0, 9}, false)), Outcome::kGranted);
  EXPECT_EQ(Lock(Of(2, {5, 19}, false)), Outcome::kGranted);
  EXPECT_EQ(Lock(Of(3, {9, 9})), Outcome::kDenied);
  EXPECT_EQ(Lock(Of(3, {20, 29})), Outcome::kGranted);
  EXPECT_EQ(Lock(Of(1, {25, 25}, false)), Outcome::kDenied);
  // Its own locks are nobody's hindrance.
  EXPECT_EQ(Lock(Of(3, {20, 24}, false)), Outcome::kGranted);
  EXPECT_EQ(Lock(Of(1, {20, 24}, false)), Outcome::kGranted);
  table_.Unlock(Of(1));
  table_.Unlock(Of(2, {5, 9}));
  EXPECT_EQ(Lock(Of(4, {0, 9})), Outcome::kGranted);
  EXPECT_EQ(Lock(Of(4, {10, 10})), Outcome::kDenied);
}

TEST_F(LockTableTest, LocalProgramsSeeTheLocks) {
  EXPECT_EQ(Lock(Of(1, {0, 9})), Outcome::kGranted);
  EXPECT_FALSE(LocallyLocked({5, 5}));
  EXPECT_TRUE(LocallyLocked({10, 19}));
  EXPECT_EQ(Lock(Of(1, {10, 10})), Outcome::kDenied);
  table_.Unlock(Of(1));
  EXPECT_TRUE(LocallyLocked({0, 9}));
  EXPECT_EQ(Lock(Of(1, kAll), /*wait=*/true), Outcome::kWaiting);
  EXPECT_THAT(Granted(), IsEmpty());
  EXPECT_TRUE(LocallyLocked(kAll, F_UNLCK));
  EXPECT_THAT(Granted(), ElementsAre(1));
  EXPECT_FALSE(LocallyLocked({100, 100}));
}

TEST_F(LockTableTest, TestNamesTheHolder) {
  EXPECT_FALSE(table_.Test(Of(1), Open()).has_value());
  EXPECT_EQ(Lock(Of(1, {10, 19})), Outcome::kGranted);
  EXPECT_FALSE(table_.Test(Of(1), Open()).has_value());
  EXPECT_FALSE(table_.Test(Of(2, {0, 9}), Open()).has_value());
  const auto holder = table_.Test(Of(2, {0, 10}, false), Open());
  ASSERT_TRUE(holder.has_value());
  EXPECT_EQ(holder->held, (HeldRange{{10, 19}, true}));
  EXPECT_EQ(holder->svid, 1u);
  EXPECT_EQ(holder->oh, "process");
  EXPECT_TRUE(LocallyLocked({30, ByteRange::kEnd}, F_RDLCK));
  const auto local = table_.Test(Of(1), Open());
  ASSERT_TRUE(local.has_value());
  EXPECT_EQ(local->held, (HeldRange{{30, ByteRange::kEnd}, false}));
  EXPECT_EQ(local->oh, "");
  EXPECT_FALSE(table_.Test(Of(1, kAll, false), Open()).has_value());
}

TEST_F(LockTableTest, WaitingRequestsAreGrantedInOrder) {
  EXPECT_EQ(Lock(Of(1)), Outcome::kGranted);
  EXPECT_EQ(Lock(Of(2), true), Outcome::kWaiting);
  EXPECT_EQ(Lock(Of(3), true), Outcome::kWaiting);
  EXPECT_EQ(Lock(Of(2), true), Outcome::kWaiting);
  EXPECT_EQ(table_.waiting(), 2u);
  EXPECT_THAT(Granted(), IsEmpty());
  table_.Unlock(Of(1));
  EXPECT_THAT(Granted(), ElementsAre(2));
  EXPECT_THAT(Granted(), IsEmpty());  // once
  EXPECT_EQ(Lock(Of(1)), Outcome::kDenied);
  table_.Told(numbers_[0], /*taken=*/true);
  EXPECT_EQ(table_.waiting(), 1u);
  EXPECT_EQ(Lock(Of(1)), Outcome::kDenied);
  table_.Unlock(Of(2));
  EXPECT_THAT(Granted(), ElementsAre(3));
  // Whoever does not want it any more does not keep it.
  EXPECT_EQ(Lock(Of(1), true), Outcome::kWaiting);
  table_.Told(numbers_[1], /*taken=*/false);
  EXPECT_THAT(Granted(), ElementsAre(1));
}

// It asked for more than it had, and could not be told that it got it: what it had it still has.
TEST_F(LockTableTest, AFailedGrantKeepsTheEarlierLock) {
  EXPECT_EQ(Lock(Of(1, kAll, false)), Outcome::kGranted);
  EXPECT_EQ(Lock(Of(2, kAll, false)), Outcome::kGranted);
  EXPECT_EQ(Lock(Of(1), true), Outcome::kWaiting);
  table_.Unlock(Of(2));
  EXPECT_THAT(Granted(), ElementsAre(1));
  table_.Told(numbers_[0], /*taken=*/false);
  EXPECT_EQ(Lock(Of(3)), Outcome::kDenied);
  // As it had it: others may share it.
  EXPECT_EQ(Lock(Of(3, kAll, false)), Outcome::kGranted);
  EXPECT_FALSE(LocallyLocked(kAll));
  EXPECT_TRUE(LocallyLocked(kAll, F_RDLCK));
}

TEST_F(LockTableTest, CancelKeepsRangesLockedBeforeAndSince) {
  EXPECT_EQ(Lock(Of(1, {10, 19}, false)), Outcome::kGranted);
  EXPECT_EQ(Lock(Of(2)), Outcome::kDenied);
  EXPECT_EQ(Lock(Of(2, {50, 50})), Outcome::kGranted);
  EXPECT_EQ(Lock(Of(1, {0, 99}), true), Outcome::kWaiting);
  table_.Unlock(Of(2));
  EXPECT_THAT(Granted(), ElementsAre(1));
  EXPECT_EQ(Lock(Of(1, {90, 119})), Outcome::kGranted);
  EXPECT_TRUE(table_.Cancel(Of(1, {0, 99})));
  EXPECT_EQ(Lock(Of(3, {0, 9})), Outcome::kGranted);
  EXPECT_EQ(Lock(Of(3, {20, 89})), Outcome::kGranted);
  EXPECT_EQ(Lock(Of(3, {10, 19})), Outcome::kDenied);
  EXPECT_EQ(Lock(Of(3, {10, 19}, false)), Outcome::kGranted);
  EXPECT_EQ(Lock(Of(3, {90, 90}, false)), Outcome::kDenied);
  EXPECT_FALSE(LocallyLocked({119, 119}, F_RDLCK));
}

// The second waits for what becomes of the first.
TEST_F(LockTableTest, TheNextGrantWaitsForTheOutcomeOfTheLast) {
  EXPECT_EQ(Lock(Of(2)), Outcome::kGranted);
  EXPECT_EQ(Lock(Of(1, {0, 9}), true), Outcome::kWaiting);
  EXPECT_EQ(Lock(Of(1, {5, 19}, false), true), Outcome::kWaiting);
  table_.Unlock(Of(2));
  EXPECT_THAT(Granted(), ElementsAre(1));
  table_.Told(numbers_[0], /*taken=*/false);
  EXPECT_THAT(Granted(), ElementsAre(1));
  table_.Told(numbers_[1], /*taken=*/true);
  EXPECT_EQ(Lock(Of(3, {0, 4})), Outcome::kGranted);
  EXPECT_EQ(Lock(Of(3, {5, 19})), Outcome::kDenied);
}

TEST_F(LockTableTest, ARepeatedRequestConfirmsItsGrant) {
  EXPECT_EQ(Lock(Of(1)), Outcome::kGranted);
  EXPECT_EQ(Lock(Of(2), true), Outcome::kWaiting);
  table_.Unlock(Of(1));
  EXPECT_THAT(Granted(), ElementsAre(2));
  EXPECT_EQ(Lock(Of(2), true), Outcome::kGranted);
  EXPECT_EQ(table_.waiting(), 0u);
  table_.Told(numbers_[0], /*taken=*/false);
  EXPECT_EQ(Lock(Of(1)), Outcome::kDenied);
  table_.Unlock(Of(2));
  EXPECT_EQ(Lock(Of(1)), Outcome::kGranted);
}

TEST_F(LockTableTest, CancelledRequestsAreNotGranted) {
  EXPECT_EQ(Lock(Of(1)), Outcome::kGranted);
  EXPECT_FALSE(table_.Cancel(Of(1)));
  EXPECT_EQ(Lock(Of(2), true), Outcome::kWaiting);
  EXPECT_FALSE(table_.Cancel(Of(2, {0, 5})));
  EXPECT_TRUE(table_.Cancel(Of(2)));
  EXPECT_EQ(Lock(Of(2), true), Outcome::kWaiting);
  EXPECT_EQ(Lock(Of(3), true), Outcome::kWaiting);
  table_.Unlock(Of(1));
  // Granted meanwhile: given up again, to the next.
  EXPECT_THAT(Granted(), ElementsAre(2));
  EXPECT_TRUE(table_.Cancel(Of(2)));
  EXPECT_THAT(Granted(), ElementsAre(3));
  EXPECT_EQ(Lock(Of(2)), Outcome::kDenied);
  // Unlocked before it was told of it.
  table_.Unlock(Of(3));
  EXPECT_EQ(table_.waiting(), 0u);
  table_.Told(numbers_[1], true);
  EXPECT_EQ(Lock(Of(2)), Outcome::kGranted);
}

TEST_F(LockTableTest, FreeAllReleasesOnlyTheLocksOfTheClient) {
  EXPECT_EQ(Lock(Of(1, {0, 9})), Outcome::kGranted);
  EXPECT_EQ(Lock(Of(2, {10, 19})), Outcome::kGranted);
  EXPECT_EQ(Lock(Of(1, {10, 19}), true), Outcome::kWaiting);
  EXPECT_EQ(Lock(Of(3, {0, 9}), true), Outcome::kWaiting);
  table_.FreeAll(Of(1).owner.client, 1);
  EXPECT_THAT(Granted(), ElementsAre(3));
  EXPECT_EQ(table_.waiting(), 1u);
  EXPECT_EQ(Lock(Of(4, {10, 10})), Outcome::kDenied);
  LockClient renamed = Of(2).owner.client;
  renamed.name = "other";
  table_.FreeAll(renamed, 1);
  EXPECT_EQ(Lock(Of(4, {10, 10})), Outcome::kDenied);
  EXPECT_THAT(table_.Clients(), ElementsAre(Key(Of(2).owner.client), Key(Of(3).owner.client)));
}

TEST_F(LockTableTest, FreeExportReleasesAllLocksOfItsFiles) {
  const auto in_export = [](uint64_t id, LockRequest request) {
    const FileHandle handle = HandleKey({}).Seal(id, {});
    request.file.assign(handle.view().begin(), handle.view().end());
    return request;
  };
  const LockRequest gone = in_export(7, Of(1, {0, 9})), stays = in_export(8, Of(1, {20, 29}));
  EXPECT_EQ(Lock(gone), Outcome::kGranted);
  EXPECT_EQ(Lock(in_export(7, Of(2, {0, 9})), true), Outcome::kWaiting);
  EXPECT_EQ(table_.Share({.file = gone.file, .client = gone.owner.client, .oh = "process"}),
            Outcome::kGranted);
  EXPECT_EQ(Lock(stays), Outcome::kGranted);
  table_.FreeExport(7);
  EXPECT_TRUE(LocallyLocked({0, 9}));
  EXPECT_FALSE(LocallyLocked({20, 29}));
  EXPECT_EQ(table_.waiting(), 0u);
  const auto clients = table_.Clients();
  ASSERT_THAT(clients, ElementsAre(Key(stays.owner.client)));
  EXPECT_EQ(clients.begin()->second.files, 1u);
  EXPECT_EQ(clients.begin()->second.shares, 0u);
}

TEST_F(LockTableTest, ClientsCountsFilesRangesAndWaitingRequests) {
  EXPECT_THAT(table_.Clients(), IsEmpty());
  LockRequest process = Of(1, {0, 9});
  EXPECT_EQ(Lock(process), Outcome::kGranted);
  process.owner.svid = 2;
  process.range = {20, 29};
  EXPECT_EQ(Lock(process), Outcome::kGranted);
  process.range = {40, 49};
  EXPECT_EQ(Lock(process), Outcome::kGranted);
  process.file = "another";
  process.range = {60, 69};
  EXPECT_EQ(Lock(process), Outcome::kGranted);
  EXPECT_EQ(Lock(Of(3, {0, 0}), /*wait=*/true), Outcome::kWaiting);
  EXPECT_EQ(table_.Share({.file = "handle", .client = Of(3).owner.client, .oh = "o", .access = 1}),
            Outcome::kGranted);
  const auto clients = table_.Clients();
  ASSERT_THAT(clients, ElementsAre(Key(Of(1).owner.client), Key(Of(3).owner.client)));
  const ClientLocks& one = clients.at(Of(1).owner.client);
  const ClientLocks& other = clients.at(Of(3).owner.client);
  EXPECT_EQ(one.files, 2u);
  EXPECT_EQ(one.ranges, 4u);
  EXPECT_EQ(one.awaited + one.shares, 0u);
  EXPECT_EQ(other.files + other.ranges, 0u);
  EXPECT_EQ(other.awaited, 1u);
  EXPECT_EQ(other.shares, 1u);
}

// What frees the locks of a client that has restarted may come after its first new one.
TEST_F(LockTableTest, FreeAllKeepsLocksOfALaterIncarnation) {
  EXPECT_EQ(Lock(Of(1, {0, 9})), Outcome::kGranted);
  LockRequest later = Of(1, {10, 19});
  later.owner.svid = 7;
  EXPECT_EQ(table_.Lock(later, false, Open(), 2), Outcome::kGranted);
  table_.FreeAll(later.owner.client, 2);
  EXPECT_EQ(Lock(Of(3, {0, 9})), Outcome::kGranted);
  EXPECT_EQ(Lock(Of(3, {10, 19})), Outcome::kDenied);
  table_.FreeAll(later.owner.client, 3);
  EXPECT_EQ(Lock(Of(3, {10, 19})), Outcome::kGranted);
}

TEST_F(LockTableTest, RangesPerOwnerAndFileAreBounded) {
  for (uint64_t i = 0; i < LockTable::kMaxRanges; ++i) {
    ASSERT_EQ(Lock(Of(1, {2 * i, 2 * i})), Outcome::kGranted);
  }
  EXPECT_EQ(Lock(Of(1, {1'000'000, 1'000'000})), Outcome::kNoLocks);
}

class LockLimitsTest : public LockTableTest {
 protected:
  static constexpr LockLimits kLimits = {.files = 64, .waiting = 32, .shares = 16};

  explicit LockLimitsTest(const LockLimits& limits = kLimits) : LockTableTest(limits) {}

  // Of an address, under a name that it invents.
  static LockRequest Named(uint32_t who, size_t number, bool exclusive = false) {
    LockRequest request = Of(who, kAll, exclusive);
    request.owner.client.name = std::to_string(number);
    request.file = std::to_string(number);
    return request;
  }
  // How many files it gets locked.
  size_t LockAll(uint32_t who) {
    size_t locked = 0;
    while (Lock(Named(who, locked)) == Outcome::kGranted) ++locked;
    return locked;
  }
};

// Whatever names it invents.
TEST_F(LockLimitsTest, AnAddressMayTakeMoreWhileItHasFewerThanAreFree) {
  EXPECT_EQ(LockAll(1), 32u);
  EXPECT_EQ(LockAll(2), 16u);
  EXPECT_EQ(LockAll(3), 8u);
  // What it has it may lock again, and what it gives up is there for others.
  EXPECT_EQ(Lock(Named(1, 0)), Outcome::kGranted);
  EXPECT_EQ(Lock(Named(3, 100)), Outcome::kNoLocks);
  for (size_t i = 0; i < 32; ++i) table_.Unlock(Named(1, i));
  EXPECT_EQ(Lock(Named(3, 100)), Outcome::kGranted);
  table_.FreeAll(Named(2, 0).owner.client, 1);
  EXPECT_EQ(Lock(Named(2, 100)), Outcome::kGranted);
}

TEST_F(LockLimitsTest, FilesOfAllAddressesAreBounded) {
  uint32_t who = 0;
  for (size_t left = 64; left > 0; left -= LockAll(++who)) {
  }
  EXPECT_EQ(LockAll(++who), 0u);
  table_.Unlock(Named(1, 0));
  EXPECT_EQ(LockAll(who), 1u);
}

TEST_F(LockLimitsTest, RangesPerAddressAreBounded) {
  constexpr size_t kAllRanges = kLimits.files * LockLimits::kRangesOfFile;
  const auto ranges = [&](uint32_t who) {
    size_t locked = 0;
    LockRequest request = Of(who, kAll, /*exclusive=*/false);
    do {
      request.owner.client.name = request.file = std::to_string(locked / 100);
      request.range = {2 * locked, 2 * locked};
      ++locked;
    } while (Lock(request) == Outcome::kGranted);
    return locked - 1;
  };
  EXPECT_EQ(ranges(1), kAllRanges / 2);
  EXPECT_EQ(ranges(2), kAllRanges / 4);
  EXPECT_EQ(ranges(3), kAllRanges / 8);
  // What it gives up is there again.
  LockRequest whole = Of(3, kAll, /*exclusive=*/false);
  whole.owner.client.name = whole.file = "0";
  table_.Unlock(whole);
  EXPECT_EQ(Lock(whole), Outcome::kGranted);
}

TEST_F(LockLimitsTest, WaitingRequestsPerAddressAreBounded) {
  EXPECT_EQ(Lock(Of(9)), Outcome::kGranted);
  const auto wait = [&](uint32_t who, size_t number) {
    LockRequest request = Named(who, number, /*exclusive=*/true);
    request.file = Of(9).file;
    return Lock(request, /*wait=*/true);
  };
  for (size_t i = 0; i < 16; ++i) ASSERT_EQ(wait(1, i), Outcome::kWaiting) << i;
  EXPECT_EQ(wait(1, 16), Outcome::kNoLocks);
  EXPECT_EQ(wait(1, 0), Outcome::kWaiting) << "as it does already";
  for (size_t i = 0; i < 8; ++i) ASSERT_EQ(wait(2, i), Outcome::kWaiting) << i;
  EXPECT_EQ(wait(2, 8), Outcome::kNoLocks);
  EXPECT_EQ(table_.waiting(), 24u);
  table_.FreeAll(Named(1, 3).owner.client, 1);
  EXPECT_EQ(wait(2, 8), Outcome::kWaiting);
}

TEST_F(LockLimitsTest, SharesPerAddressAreBounded) {
  const auto share = [&](uint32_t who, size_t number) {
    return table_.Share({.file = "handle",
                         .client = Named(who, number).owner.client,
                         .oh = "o",
                         .access = kFsh4Read});
  };
  for (size_t i = 0; i < 8; ++i) ASSERT_EQ(share(1, i), Outcome::kGranted) << i;
  EXPECT_EQ(share(1, 8), Outcome::kNoLocks);
  EXPECT_EQ(share(1, 7), Outcome::kGranted) << "in place of its old one";
  EXPECT_EQ(share(2, 0), Outcome::kGranted);
}

class FixedShareTest : public LockLimitsTest {
 protected:
  FixedShareTest() : LockLimitsTest({.files = 64, .waiting = 32, .shares = 16, .of_address = 50}) {}
};

TEST_F(FixedShareTest, LimitsEachAddressToTheGivenNumber) {
  EXPECT_EQ(LockAll(1), 50u);
  EXPECT_EQ(LockAll(2), 14u);
  EXPECT_EQ(LockAll(3), 0u);
}

TEST_F(LockTableTest, SharesDenyEachOther) {
  const auto share = [](uint32_t who, uint32_t access, uint32_t mode) {
    return ShareRequest{.file = "handle",
                        .client = {.address = Gid::FromIpv4(who), .name = "host"},
                        .oh = "o",
                        .access = access,
                        .mode = mode};
  };
  EXPECT_EQ(table_.Share(share(1, kFsh4Read, kFsh4Write)), Outcome::kGranted);
  EXPECT_EQ(table_.Share(share(2, kFsh4Write, 0)), Outcome::kDenied);
  EXPECT_EQ(table_.Share(share(2, kFsh4Read, kFsh4Read)), Outcome::kDenied);
  EXPECT_EQ(table_.Share(share(2, kFsh4Read, 0)), Outcome::kGranted);
  EXPECT_EQ(table_.Share(share(1, kFsh4Both, 0)), Outcome::kGranted);
  EXPECT_EQ(table_.Share(share(2, kFsh4Write, 0)), Outcome::kGranted);
  EXPECT_EQ(table_.Share(share(3, 0, kFsh4Read)), Outcome::kDenied);
  table_.Unshare(share(1, 0, 0));
  EXPECT_EQ(table_.Share(share(3, 0, kFsh4Read)), Outcome::kGranted);
  table_.FreeAll(share(2, 0, 0).client, 1);
  EXPECT_EQ(table_.Share(share(4, 0, kFsh4Both)), Outcome::kGranted);
}

TEST_F(LockTableTest, ARequestThatWasGivenUpIsDenied) {
  std::atomic<bool> undecided = true;
  EXPECT_EQ(table_.Lock(Of(1), false, Open(), 0, &undecided), Outcome::kGranted);
  EXPECT_FALSE(undecided);
  table_.Unlock(Of(1));
  for (const bool wait : {false, true}) {
    EXPECT_EQ(table_.Lock(Of(1), wait, Open(), 0, &undecided), Outcome::kDenied);
  }
  EXPECT_TRUE(table_.Clients().empty());
}

TEST_F(LockTableTest, AnExclusiveLockNeedsAWritableDescriptor) {
  Fd reader(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(table_.Lock(Of(1), false, std::move(reader)), Outcome::kFailed);
  EXPECT_EQ(Lock(Of(2)), Outcome::kGranted);
}

}  // namespace
}  // namespace pollux::nfs
