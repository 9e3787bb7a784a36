#include "cm/gsi/shard.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "cm/wire/mad_samples.h"
#include "stack/base/random.h"

namespace pollux::cm {
namespace {

constexpr Gid kShardClient = Gid::FromIpv4(0xC0000202);

uint32_t OwnerOf(const Message& message, const Gid& from, uint32_t workers) {
  MadBuffer mad;
  EmitMad({}, message, mad);
  return GsiOwner(mad, from, workers);
}

// Of a message that answers or follows another: it names the ID that its receiver has given out.
template <class T>
T To(uint32_t receivers_id) {
  T message;
  message.local_comm_id = 0x12345678;
  message.remote_comm_id = receivers_id;
  return message;
}

std::vector<Message> AllToId(uint32_t id) {
  SidrRep rep;
  rep.request_id = id;
  return {To<Rep>(id),  To<Rtu>(id), To<Rej>(id), To<Mra>(id), To<Dreq>(id),
          To<Drep>(id), To<Lap>(id), To<Apr>(id), rep};
}

TEST(ShardTest, IdsMapBackToTheirShard) {
  Random random(1);
  for (uint32_t count = 2; count <= Shard::kMaxCount; ++count) {
    for (uint32_t index = 0; index < count; ++index) {
      const Shard shard{index, count};
      for (const Message& message : AllToId(shard.MakeId(random.Next32()))) {
        EXPECT_EQ(OwnerOf(message, kShardClient, count), index) << message.index();
      }
    }
  }
}

TEST(ShardTest, ASingleManagerUsesAllBitsOfAnId) {
  EXPECT_EQ((Shard{0, 1}.MakeId(0xFFFFFFFF)), 0xFFFFFFFFu);
  EXPECT_EQ((Shard{3, 4}.MakeId(0xFFFFFFFF)), 0xFF3FFFFFu);
  EXPECT_EQ((Shard{15, 16}.MakeId(0)), 0x00F00000u);
}

TEST(ShardTest, TheUpperBitsOfAnIdNameItsProcess) {
  EXPECT_EQ((Shard{0, 1, 0xA5}.MakeId(0)), 0xA5000000u);
  EXPECT_EQ((Shard{0, 1, 0xA5}.MakeId(0xFFFFFFFF)), 0xA5FFFFFFu);
  EXPECT_EQ((Shard{3, 4, 0}.MakeId(0xFFFFFFFF)), 0x003FFFFFu);
  EXPECT_EQ(Shard::ProcessOf(0xA5FFFFFF), 0xA5);
}

// Of a process before, or of a stranger: some worker, which will not know it.
TEST(ShardTest, UnknownIdsMapToSomeWorker) {
  for (uint32_t workers = 1; workers <= Shard::kMaxCount; ++workers) {
    for (const Message& message : AllToId(0xFFFFFFFF)) {
      EXPECT_LT(OwnerOf(message, kShardClient, workers), workers);
    }
  }
}

TEST(ShardTest, RequestsAreSpreadByQueuePairNumber) {
  for (const uint32_t workers : {2u, 3u, 16u}) {
    std::set<uint32_t> owners;
    for (uint32_t i = 0; i < workers; ++i) {
      Req req;
      req.local_qpn = 0xFFFF0 + i;
      const uint32_t owner = OwnerOf(req, kShardClient, workers);
      EXPECT_TRUE(owners.insert(owner).second) << "consecutive numbers meet";
      // What else it says changes nothing.
      req.local_comm_id = 77 + i;
      req.service_id = 5;
      EXPECT_EQ(OwnerOf(req, kShardClient, workers), owner);
    }
    EXPECT_LT(*owners.rbegin(), workers);
  }
}

// A host may count its request IDs up in either order of bytes.
TEST(ShardTest, SidrRequestsAreSpreadByRequestId) {
  for (const uint32_t step : {1u, 1u << 24}) {
    std::set<uint32_t> owners;
    for (uint32_t i = 0; i < 3; ++i) {
      SidrReq req;
      req.request_id = 0x10203040 + i * step;
      owners.insert(OwnerOf(req, kShardClient, 3));
    }
    EXPECT_EQ(owners.size(), 3u);
  }
}

TEST(ShardTest, ConsecutiveClientAddressesMapToDifferentShards) {
  std::set<uint32_t> homes;
  for (uint32_t i = 0; i < 3; ++i) {
    homes.insert(Shard{0, 3}.HomeOf(Gid::FromIpv4(0xC0000202 + i)));
  }
  EXPECT_EQ(homes, (std::set<uint32_t>{0, 1, 2}));
  EXPECT_EQ((Shard{0, 3}.HomeOf(kShardClient)), (Shard{2, 3}.HomeOf(kShardClient)));
}

// Both sides of what Linux hosts have said: the number of the queue pair, the ID that came back.
TEST(ShardTest, CapturedMadsGoToTheWorkerOfTheirConnection) {
  for (const MadSample& sample : kMadSamples) {
    const MadBuffer bytes = BytesOf(sample);
    const Mad mad = *ParseMad(bytes);
    constexpr uint32_t kWorkers = 16;
    const uint32_t owner = GsiOwner(bytes, Gid{}, kWorkers);
    if (const auto* req = std::get_if<Req>(&mad.message)) {
      EXPECT_EQ(owner, req->local_qpn % kWorkers) << sample.name;
    } else if (const auto* rep = std::get_if<SidrRep>(&mad.message)) {
      EXPECT_EQ(owner, Shard::IndexOf(rep->request_id)) << sample.name;
    } else if (!std::holds_alternative<SidrReq>(mad.message)) {
      const uint32_t id = std::visit(
          [](const auto& message) -> uint32_t {
            if constexpr (requires { message.remote_comm_id; }) return message.remote_comm_id;
            return 0;
          },
          mad.message);
      EXPECT_EQ(owner, Shard::IndexOf(id)) << sample.name;
    }
    EXPECT_EQ(GsiOwner(bytes, kShardClient, 1), 0u) << sample.name;
  }
}

TEST(ShardTest, OtherMadsGoToTheFirstWorker) {
  Req req;
  req.local_qpn = 3;
  MadBuffer mad;
  EmitMad({.management_class = 4}, req, mad);
  EXPECT_EQ(GsiOwner(mad, Gid{}, 2), 0u);
  EmitMad({}, req, mad);
  EXPECT_EQ(GsiOwner(mad, Gid{}, 2), 1u);
  for (size_t length = 0; length < mad.size(); ++length) {
    EXPECT_EQ(GsiOwner(std::span(mad).first(length), Gid{}, 2), 0u) << length;
  }
  Random random(2);
  for (int i = 0; i < 10'000; ++i) {
    for (uint8_t& byte : mad) byte = static_cast<uint8_t>(random.Next32());
    mad[1] = kMadClassCm;
    EXPECT_LT(GsiOwner(mad, kShardClient, 5), 5u);
  }
}

}  // namespace
}  // namespace pollux::cm
