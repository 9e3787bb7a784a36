// Each planted fault breaks a promise that transport_test keeps.
#include "stack/base/planted_fault.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "stack/transport/test_pair.h"

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

TEST_F(PlantedFaultTest, IcrcUnchecked) {
  planted_fault = Fault::kIcrcUnchecked;
  pair_.hook = [](bool from_a, const wire::RocePacket& packet, rte_mbuf* frame) {
    if (from_a) rte_pktmbuf_mtod(frame, uint8_t*)[packet.payload_offset] ^= 1;
    return Fate::kDeliver;
  };
  pair_.a.PostSend(IBV_WR_RDMA_WRITE, 1, pair_.a.memory.data(), 100,
                   reinterpret_cast<uint64_t>(pair_.b.memory.data()), pair_.b.key);
  pair_.RunToEnd();
  EXPECT_EQ(pair_.b.memory[0], 1) << "wrong bytes were placed";
}

TEST_F(PlantedFaultTest, PsnOffByOne) {
  planted_fault = Fault::kPsnOffByOne;
  int frames = 0;
  pair_.hook = [&](bool from_a, const wire::RocePacket&, rte_mbuf*) {
    return from_a && ++frames == 2 ? Fate::kDrop : Fate::kDeliver;
  };
  for (int i = 0; i < 3; ++i) {
    pair_.b.PostRecv(i, pair_.b.memory.data(), 10);
    pair_.a.PostSend(IBV_WR_SEND, i, pair_.a.memory.data(), 10);
  }
  pair_.RunToEnd();
  EXPECT_EQ(pair_.b.Poll().size(), 2u) << "a lost message was passed over";
}

TEST_F(PlantedFaultTest, RnrLost) {
  planted_fault = Fault::kRnrLost;
  pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 10);
  pair_.RunToEnd();
  EXPECT_EQ(pair_.a.Poll().size(), 1u) << "a message nobody received was acknowledged";
}

TEST_F(PlantedFaultTest, StaleKeyAccepted) {
  planted_fault = Fault::kStaleKeyAccepted;
  ASSERT_TRUE(pair_.b.regions.Deregister(pair_.b.key).ok());
  pair_.a.PostSend(IBV_WR_RDMA_READ, 1, pair_.a.memory.data(), 10,
                   reinterpret_cast<uint64_t>(pair_.b.memory.data()), pair_.b.key);
  pair_.RunToEnd();
  const std::vector<ibv_wc> all = pair_.a.Poll();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace pollux::transport
