// Each planted fault breaks a promise that transport_test keeps.
#include "stack/base/planted_fault.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "stack/base/byte_order.h"
#include "stack/transport/test_pair.h"
#include "stack/wire/icrc.h"

#ifndef POLLUX_PLANTED_FAULTS
#error "build through faulty_test (tools/build/faults.bzl)"
#endif

namespace pollux::transport {
namespace {

class PlantedFaultTest : public ::testing::Test {
 protected:
  ~PlantedFaultTest() override { planted_fault = Fault::kNone; }
  TestPair pair_;
};

TEST_F(PlantedFaultTest, IcrcUncheckedWritesCorruptData) {
  planted_fault = Fault::kIcrcUnchecked;
  pair_.hook = [](bool from_a, const wire::RocePacket& packet, rte_mbuf* frame) {
    if (from_a) rte_pktmbuf_mtod(frame, uint8_t*)[packet.payload_offset] ^= 1;
    return PacketAction::kDeliver;
  };
  pair_.a.PostSend(IBV_WR_RDMA_WRITE, 1, pair_.a.memory.data(), 100,
                   reinterpret_cast<uint64_t>(pair_.b.memory.data()), pair_.b.key);
  pair_.RunToEnd();
  EXPECT_EQ(pair_.b.memory[0], 1) << "wrong bytes were placed";
}

TEST_F(PlantedFaultTest, PsnOffByOneSkipsALostMessage) {
  planted_fault = Fault::kPsnOffByOne;
  int frames = 0;
  pair_.hook = [&](bool from_a, const wire::RocePacket&, rte_mbuf*) {
    return from_a && ++frames == 2 ? PacketAction::kDrop : PacketAction::kDeliver;
  };
  for (int i = 0; i < 3; ++i) {
    pair_.b.PostRecv(i, pair_.b.memory.data(), 10);
    pair_.a.PostSend(IBV_WR_SEND, i, pair_.a.memory.data(), 10);
  }
  pair_.RunToEnd();
  EXPECT_EQ(pair_.b.Poll().size(), 2u) << "a lost message was passed over";
}

TEST_F(PlantedFaultTest, HeadersUncheckedAcceptsAnotherPkey) {
  planted_fault = Fault::kHeadersUnchecked;
  int frames = 0;
  pair_.hook = [&frames](bool from_a, const wire::RocePacket& packet, rte_mbuf* frame) {
    if (from_a && ++frames == 2) {
      auto* bytes = rte_pktmbuf_mtod(frame, uint8_t*);
      StoreBe16(bytes + packet.bth_offset + wire::bth_fields::kPkey, 0x8001);
      wire::EmitIcrc(wire::ComputeIcrc(packet), bytes + packet.icrc_offset);
    }
    return PacketAction::kDeliver;
  };
  for (int i = 0; i < 2; ++i) {
    pair_.b.PostRecv(i, pair_.b.memory.data(), 10);
    pair_.a.PostSend(IBV_WR_SEND, i, pair_.a.memory.data(), 10);
  }
  pair_.Run();
  EXPECT_EQ(pair_.b.Poll().size(), 2u) << "a message under another P_Key was taken";
}

TEST_F(PlantedFaultTest, RnrLostAcknowledgesAnUnreceivedMessage) {
  planted_fault = Fault::kRnrLost;
  pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 10);
  pair_.RunToEnd();
  EXPECT_EQ(pair_.a.Poll().size(), 1u) << "a message nobody received was acknowledged";
}

TEST_F(PlantedFaultTest, StaleKeyAcceptedLetsADeregisteredKeyRead) {
  planted_fault = Fault::kStaleKeyAccepted;
  ASSERT_TRUE(pair_.b.regions.Deregister(pair_.b.key).ok());
  pair_.a.PostSend(IBV_WR_RDMA_READ, 1, pair_.a.memory.data(), 10,
                   reinterpret_cast<uint64_t>(pair_.b.memory.data()), pair_.b.key);
  pair_.RunToEnd();
  const std::vector<ibv_wc> all = pair_.a.Poll();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, IBV_WC_SUCCESS);
}

TEST_F(PlantedFaultTest, InvalidationLostKeepsTheRegionMapped) {
  planted_fault = Fault::kInvalidationLost;
  memory::RegionTable& regions = pair_.a.regions;
  const uint32_t key = regions.AllocFast(&pair_.a.pd, 8)->key;
  ASSERT_TRUE(regions.Map(pair_.a.pd, {.key = key, .length = 8}));
  ASSERT_TRUE(regions.InvalidateLocal(pair_.a.pd, key));
  EXPECT_TRUE(regions.Find(key)->mapped);
}

TEST_F(PlantedFaultTest, FenceIgnoredSendsAWriteBeforeTheReadResponse) {
  planted_fault = Fault::kFenceIgnored;
  const auto remote = reinterpret_cast<uint64_t>(pair_.b.memory.data());
  bool fenced_before_answer = false, answered = false;
  pair_.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf*) {
    answered |= !from_a;
    fenced_before_answer |= !answered && packet.info->operation == wire::Operation::kWrite;
    return PacketAction::kDeliver;
  };
  pair_.a.PostSend(IBV_WR_RDMA_READ, 1, pair_.a.memory.data(), 10, remote, pair_.b.key);
  pair_.a.PostSend(IBV_WR_RDMA_WRITE, 2, pair_.a.memory.data(), 10, remote, pair_.b.key,
                   IBV_SEND_SIGNALED | IBV_SEND_FENCE);
  pair_.RunToEnd();
  EXPECT_TRUE(fenced_before_answer);
}

TEST_F(PlantedFaultTest, OneByteBeyondWritesPastTheMessage) {
  planted_fault = Fault::kOneByteBeyond;
  pair_.b.memory[10] = 0x55;
  pair_.b.PostRecv(1, pair_.b.memory.data(), 10);
  pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 10);
  pair_.RunToEnd();
  EXPECT_NE(pair_.b.memory[10], 0x55);
}

TEST_F(PlantedFaultTest, ReceiveUnflushedGivesNoCompletionInErr) {
  planted_fault = Fault::kReceiveUnflushed;
  pair_.b.PostRecv(1, pair_.b.memory.data(), 10);
  pair_.b.endpoint->qp.EnterError();
  EXPECT_TRUE(pair_.b.Poll().empty());
}

TEST_F(PlantedFaultTest, OverrunUnnoticedAcceptsACompletionBeyondTheCapacity) {
  planted_fault = Fault::kOverrunUnnoticed;
  while (pair_.a.cq.Push(ibv_wc{}) && pair_.a.cq.size() < pair_.a.cq.capacity()) {
  }
  EXPECT_TRUE(pair_.a.cq.Push(ibv_wc{}));
  EXPECT_FALSE(pair_.a.cq.overrun());
}

TEST(PlantedFaultOfMsnTest, NotWrappedSendsOneInsteadOfZero) {
  planted_fault = Fault::kMsnNotWrapped;
  TestPair pair(IBV_QPT_RC, nullptr, false, nullptr, 0xFFFFFF);
  std::vector<uint32_t> numbers;
  pair.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf*) {
    if (!from_a) numbers.push_back(packet.aeth().msn);
    return PacketAction::kDeliver;
  };
  pair.b.PostRecv(1, pair.b.memory.data(), 10);
  pair.a.PostSend(IBV_WR_SEND, 1, pair.a.memory.data(), 10);
  pair.RunToEnd();
  planted_fault = Fault::kNone;
  EXPECT_EQ(numbers, std::vector<uint32_t>{1});
}

TEST(PlantedFaultOfUcTest, GapUnnoticedDeliversAnIncompleteMessage) {
  TestPair pair(IBV_QPT_UC);
  planted_fault = Fault::kGapUnnoticed;
  int frames = 0;
  pair.hook = [&](bool, const wire::RocePacket&, rte_mbuf*) {
    return ++frames == 2 ? PacketAction::kDrop : PacketAction::kDeliver;
  };
  pair.b.PostRecv(1, pair.b.memory.data(), 4096);
  pair.a.PostSend(IBV_WR_SEND, 1, pair.a.memory.data(), 4096);
  pair.RunToEnd();
  planted_fault = Fault::kNone;
  EXPECT_EQ(pair.b.Poll().size(), 1u) << "a message with a hole was delivered";
}

}  // namespace
}  // namespace pollux::transport
