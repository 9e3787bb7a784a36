#include "rpcrdma/responder/reply_cache.h"

#include <gtest/gtest.h>

#include <vector>

#include "rpcrdma/responder/lost_replies.h"

namespace pollux::rpcrdma {
namespace {

using Outcome = ReplyCache::Outcome;

CallKey KeyOf(uint32_t xid) {
  return {.client = Gid::FromIpv4(0xC6336401), .xid = xid, .program = 100003, .version = 3};
}
Responder* SomeResponder() { return reinterpret_cast<Responder*>(0x1000); }

std::vector<uint8_t> BytesOf(size_t count, uint8_t value) {
  return std::vector<uint8_t>(count, value);
}

TEST(ReplyCache, AFinishedCallIsAnsweredFromTheCache) {
  ReplyCache cache(4, 64);
  const auto [outcome, entry] = cache.Begin(KeyOf(1));
  ASSERT_EQ(outcome, Outcome::kNew);
  EXPECT_EQ(cache.Begin(KeyOf(1)).outcome, Outcome::kRunning);
  ReplyCache::Saved saved;
  EXPECT_FALSE(cache.Load(entry, &saved));

  const std::vector<uint8_t> results = BytesOf(12, 1), first = BytesOf(5, 2),
                             second = BytesOf(7, 3);
  const ResultItem items[] = {{.bytes = first, .position = 4, .release = nullptr},
                              {.bytes = second, .position = 8, .release = nullptr}};
  EXPECT_FALSE(cache.Finish(entry, {}, results, items).has_value());
  const auto [again, same] = cache.Begin(KeyOf(1));
  EXPECT_EQ(again, Outcome::kDone);
  ASSERT_TRUE(cache.Load(same, &saved));
  EXPECT_EQ(saved.reply.accept_status, oncrpc::AcceptStatus::kSuccess);
  EXPECT_EQ(saved.results, absl::MakeConstSpan(results));
  ASSERT_EQ(saved.item_count, 2u);
  EXPECT_EQ(saved.items[0].bytes, absl::MakeConstSpan(first));
  EXPECT_EQ(saved.items[0].position, 4u);
  EXPECT_EQ(saved.items[1].bytes, absl::MakeConstSpan(second));
  for (uint32_t i = 0; i < saved.item_count; ++i) saved.items[i].release();
}

TEST(ReplyCache, AForgottenCallIsNewAgain) {
  ReplyCache cache(4, 64);
  const ReplyCache::Found first = cache.Begin(KeyOf(1));
  ASSERT_EQ(first.outcome, ReplyCache::Outcome::kNew);
  cache.Finish(first.entry, {}, BytesOf(8, 1), {});
  cache.Forget(first.entry);
  EXPECT_EQ(cache.size(), 0u);
  const ReplyCache::Found again = cache.Begin(KeyOf(1));
  ASSERT_EQ(again.outcome, ReplyCache::Outcome::kNew);
  // Its item is on its way.
  const std::vector<uint8_t> bytes = BytesOf(8, 1);
  const ResultItem item{.bytes = bytes};
  cache.Finish(again.entry, {}, {}, {&item, 1});
  ReplyCache::Saved saved;
  ASSERT_TRUE(cache.Load(again.entry, &saved));
  cache.Forget(again.entry);
  EXPECT_EQ(cache.size(), 1u);
  EXPECT_EQ(saved.items[0].bytes, absl::MakeConstSpan(bytes));
  saved.items[0].release();
  cache.Forget(again.entry);
  EXPECT_EQ(cache.size(), 0u);
}

TEST(ReplyCache, KeepsTheVerifier) {
  ReplyCache cache(4, 64);
  std::vector<uint8_t> verifier = BytesOf(40, 5);
  const std::vector<uint8_t> results = BytesOf(24, 1), more = BytesOf(28, 1);
  for (const bool fits : {true, false}) {
    const uint32_t entry = cache.Begin(KeyOf(fits ? 1 : 2)).entry;
    cache.Finish(entry, {.verifier = {oncrpc::AuthFlavor::kGss, verifier}}, fits ? results : more,
                 {});
    ReplyCache::Saved saved;
    ASSERT_EQ(cache.Load(entry, &saved), fits);
    if (!fits) continue;
    verifier.assign(40, 0);
    EXPECT_EQ(saved.reply.verifier.flavor, oncrpc::AuthFlavor::kGss);
    EXPECT_EQ(saved.reply.verifier.body, absl::MakeConstSpan(BytesOf(40, 5)));
    EXPECT_EQ(saved.results, absl::MakeConstSpan(results));
  }
}

TEST(ReplyCache, CallsThatDifferInAnyPartOfTheKeyAreNew) {
  ReplyCache cache(16, 0);
  CallKey keys[] = {KeyOf(1), KeyOf(2), KeyOf(1), KeyOf(1), KeyOf(1), KeyOf(1), KeyOf(1)};
  keys[2].client = Gid::FromIpv4(0xC6336402);
  keys[3].program = 100005;
  keys[4].version = 4;
  keys[5].procedure = 1;
  keys[6].checksum = 1;
  for (const CallKey& key : keys) EXPECT_EQ(cache.Begin(key).outcome, Outcome::kNew);
  for (const CallKey& key : keys) EXPECT_EQ(cache.Begin(key).outcome, Outcome::kRunning);
  EXPECT_EQ(cache.size(), 7u);
}

TEST(ReplyCache, RepliesAboveTheSizeLimitAreNotKept) {
  ReplyCache cache(4, 64);
  const std::vector<uint8_t> half = BytesOf(32, 1), more = BytesOf(33, 2);
  for (const auto& [item_bytes, fits] : {std::pair{half, true}, {more, false}}) {
    const uint32_t xid = fits ? 1 : 2;
    const ResultItem item{.bytes = item_bytes, .position = 32, .release = nullptr};
    const uint32_t entry = cache.Begin(KeyOf(xid)).entry;
    cache.Finish(entry, {}, half, {&item, 1});
    EXPECT_EQ(cache.Begin(KeyOf(xid)).outcome, fits ? Outcome::kDone : Outcome::kLost);
    ReplyCache::Saved saved;
    EXPECT_EQ(cache.Load(entry, &saved), fits);
    if (fits) saved.items[0].release();
  }
}

TEST(ReplyCache, TheLastCallThatJoinedGetsTheReply) {
  ReplyCache cache(4, 64);
  const uint32_t entry = cache.Begin(KeyOf(1)).entry;
  const auto waiter_of = [](uint32_t slot) { return ReplyCache::Waiter{SomeResponder(), slot}; };
  EXPECT_EQ(cache.Join(entry, waiter_of(3)), std::nullopt);
  cache.Leave(entry, waiter_of(3));
  EXPECT_EQ(cache.Join(entry, waiter_of(4)), std::nullopt);
  // The last one; that the one before leaves is nothing to it.
  EXPECT_EQ(cache.Join(entry, waiter_of(5)), waiter_of(4));
  cache.Leave(entry, waiter_of(4));
  const auto waiter = cache.Finish(entry, {}, {}, {});
  ASSERT_TRUE(waiter.has_value());
  EXPECT_EQ(waiter->slot, 5u);
}

TEST(ReplyCache, TheOldestFinishedCallIsEvicted) {
  ReplyCache cache(3, 64);
  uint32_t entries[3];
  for (uint32_t xid = 0; xid < 3; ++xid) entries[xid] = cache.Begin(KeyOf(xid)).entry;
  // Nothing that runs is given up.
  EXPECT_EQ(cache.Begin(KeyOf(10)).outcome, Outcome::kFull);
  const std::vector<uint8_t> bytes = BytesOf(8, 1);
  const ResultItem item{.bytes = bytes, .position = 0, .release = nullptr};
  cache.Finish(entries[1], {}, {}, {&item, 1});
  cache.Finish(entries[0], {}, {}, {});
  // Nor what a reply is being sent from.
  ReplyCache::Saved saved;
  ASSERT_TRUE(cache.Load(entries[1], &saved));
  EXPECT_EQ(cache.Begin(KeyOf(11)).outcome, Outcome::kNew);
  EXPECT_EQ(cache.Begin(KeyOf(1)).outcome, Outcome::kDone);
  EXPECT_EQ(cache.Begin(KeyOf(12)).outcome, Outcome::kFull);
  saved.items[0].release();
  EXPECT_EQ(cache.Begin(KeyOf(12)).outcome, Outcome::kNew);
  EXPECT_EQ(cache.Begin(KeyOf(1)).outcome, Outcome::kFull);
  EXPECT_EQ(cache.size(), cache.capacity());
}

TEST(ReplyCache, AClientWithManyCallsEvictsOnlyItsOwn) {
  ReplyCache cache(100, 16);
  const auto of = [](uint32_t client, uint32_t xid) {
    CallKey key = KeyOf(xid);
    key.client = Gid::FromIpv4(0xC6336400 + client);
    return key;
  };
  const auto run = [&](const CallKey& key) {
    const auto [outcome, entry] = cache.Begin(key);
    ASSERT_EQ(outcome, Outcome::kNew);
    cache.Finish(entry, {}, BytesOf(16, 7), {});
  };
  for (uint32_t xid = 0; xid < 30; ++xid) run(of(1, xid));
  for (uint32_t xid = 0; xid < 1000; ++xid) run(of(2, xid));
  for (uint32_t xid = 0; xid < 30; ++xid) {
    EXPECT_EQ(cache.Begin(of(1, xid)).outcome, Outcome::kDone) << xid;
  }
  // Who comes late has room too, and of equals each gives up its own.
  for (uint32_t xid = 0; xid < 30; ++xid) run(of(3, xid));
  for (uint32_t xid = 0; xid < 10; ++xid) run(of(1, 100 + xid));
  EXPECT_EQ(cache.Begin(of(1, 4)).outcome, Outcome::kNew);
  for (uint32_t xid = 0; xid < 30; ++xid) {
    EXPECT_EQ(cache.Begin(of(3, xid)).outcome, Outcome::kDone) << xid;
  }
  for (uint32_t client = 4; client < 200; ++client) run(of(client, 0));
  EXPECT_EQ(cache.size(), cache.capacity());
}

TEST(ReplyCache, KeepsTheNewestOfManyReplies) {
  ReplyCache cache(100, 16);
  const std::vector<uint8_t> results = BytesOf(16, 7);
  for (uint32_t xid = 0; xid < 10'000; ++xid) {
    const auto [outcome, entry] = cache.Begin(KeyOf(xid * 64));
    ASSERT_EQ(outcome, Outcome::kNew) << xid;
    cache.Finish(entry, {}, results, {});
  }
  // The last hundred are there, those before are not.
  for (uint32_t xid = 9'900; xid < 10'000; ++xid) {
    EXPECT_EQ(cache.Begin(KeyOf(xid * 64)).outcome, Outcome::kDone) << xid;
  }
  EXPECT_EQ(cache.Begin(KeyOf(9'899 * 64)).outcome, Outcome::kNew);
}

TEST(ReplyCache, TheChecksumCoversTheFirstArgumentsAndItems) {
  std::vector<uint8_t> arguments = BytesOf(kChecksummedBytes + 8, 1), item = BytesOf(9, 2);
  oncrpc::ReducedItem reduced{.bytes = item, .position = 4};
  CallView call{.header = {}, .arguments = arguments, .items = {&reduced, 1}};
  const uint64_t sum = ChecksumOf(call);
  EXPECT_EQ(ChecksumOf(call), sum);
  arguments[kChecksummedBytes - 1] ^= 1;
  EXPECT_NE(ChecksumOf(call), sum);
  arguments[kChecksummedBytes - 1] ^= 1;
  item[8] ^= 1;
  EXPECT_NE(ChecksumOf(call), sum);
  item[8] ^= 1;
  call.arguments.remove_suffix(4);
  EXPECT_NE(ChecksumOf(call), sum);
  call.arguments = arguments;
  call.items = {};
  EXPECT_NE(ChecksumOf(call), sum);
  // Credentials of other flavors may differ from one sending to the next.
  const uint64_t without = ChecksumOf(call);
  call.header.verifier = {oncrpc::AuthFlavor::kNone, item};
  EXPECT_EQ(ChecksumOf(call), without);
  call.header.credential.flavor = oncrpc::AuthFlavor::kGss;
  EXPECT_NE(ChecksumOf(call), without);
}

CallKey KeyOf(const Gid& client, uint32_t xid) {
  return {.client = client, .xid = xid, .program = 3, .version = 1, .checksum = 5};
}

// Another call of that XID is none of them.
TEST(LostReplies, AreTakenOnce) {
  LostReplies lost;
  const Gid a = Gid::FromIpv4(1), b = Gid::FromIpv4(2);
  lost.Add(KeyOf(a, 7), 0);
  EXPECT_FALSE(lost.Take(KeyOf(b, 7), 0));
  EXPECT_FALSE(lost.Take(KeyOf(a, 8), 0));
  CallKey other = KeyOf(a, 7);
  other.program = 4;
  EXPECT_FALSE(lost.Take(other, 0));
  other = KeyOf(a, 7);
  other.checksum = 6;
  EXPECT_FALSE(lost.Take(other, 0));
  EXPECT_TRUE(lost.Take(KeyOf(a, 7), 0));
  EXPECT_FALSE(lost.Take(KeyOf(a, 7), 0));
  EXPECT_EQ(lost.size(), 0u);
}

TEST(LostReplies, OnlyTheNewestAreKept) {
  LostReplies lost;
  const Gid client = Gid::FromIpv4(1);
  constexpr uint32_t kAll = 3 * LostReplies::kMax + 5;
  for (uint32_t xid = 0; xid < kAll; ++xid) lost.Add(KeyOf(client, xid), 0);
  EXPECT_EQ(lost.size(), LostReplies::kMax);
  for (uint32_t xid = 0; xid < kAll; ++xid) {
    EXPECT_EQ(lost.Take(KeyOf(client, xid), 0), xid >= kAll - LostReplies::kMax) << xid;
  }
  lost.Add(KeyOf(client, 1), 0);
  EXPECT_TRUE(lost.Take(KeyOf(client, 1), 0));
}

// XIDs come round again.
TEST(LostReplies, ExpireAfterTheKeepTime) {
  LostReplies lost;
  const Gid client = Gid::FromIpv4(1);
  lost.Add(KeyOf(client, 7), 1000);
  lost.Add(KeyOf(client, 8), 1000);
  EXPECT_TRUE(lost.Take(KeyOf(client, 7), 1000 + LostReplies::kKeptNs));
  EXPECT_FALSE(lost.Take(KeyOf(client, 8), 1001 + LostReplies::kKeptNs));
  // One of the same XID is another call's.
  lost.Add(KeyOf(client, 8), 2000 + LostReplies::kKeptNs);
  EXPECT_TRUE(lost.Take(KeyOf(client, 8), 2000 + LostReplies::kKeptNs));
  EXPECT_FALSE(lost.Take(KeyOf(client, 8), 2000 + LostReplies::kKeptNs));
}

}  // namespace
}  // namespace pollux::rpcrdma
