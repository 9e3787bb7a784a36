// Compare-and-swap and fetch-and-add over a reliable connection.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "stack/transport/test_pair.h"
#include "stack/wire/ext_headers.h"
#include "stack/wire/icrc.h"

namespace pollux::transport {
namespace {

using wire::Operation;

class RcAtomicTest : public ::testing::Test {
 protected:
  explicit RcAtomicTest(const ibv_qp_attr* attr = nullptr) : pair_(IBV_QPT_RC, attr) {}

  uint64_t Remote(uint32_t offset = 0) {
    return reinterpret_cast<uint64_t>(pair_.b.memory.data()) + offset;
  }
  static uint64_t Load(const TestNode& node, uint32_t offset) {
    uint64_t value;
    std::memcpy(&value, node.memory.data() + offset, sizeof value);
    return value;
  }
  void Store(uint64_t value) { std::memcpy(pair_.b.memory.data(), &value, sizeof value); }
  // The result goes to the place of `wr_id`.
  void Post(ibv_wr_opcode opcode, uint64_t wr_id, uint64_t compare_add, uint64_t swap = 0,
            uint64_t remote = 0, uint32_t rkey = 0) {
    EXPECT_EQ(pair_.a.PostAtomic(opcode, wr_id, pair_.a.memory.data() + 8 * wr_id,
                                 remote != 0 ? remote : Remote(), rkey != 0 ? rkey : pair_.b.key,
                                 compare_add, swap),
              0);
  }
  void ExpectFailure(ibv_wc_status status, ibv_event_type event) {
    pair_.RunToEnd();
    const std::vector<ibv_wc> all = pair_.a.Poll();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].status, status) << ibv_wc_status_str(all[0].status);
    EXPECT_EQ(pair_.b.endpoint->qp.state(), IBV_QPS_ERR);
    EXPECT_EQ(std::count(pair_.b.events.begin(), pair_.b.events.end(), event), 1);
    EXPECT_EQ(Load(pair_.b, 0), 7u) << "untouched";
  }
  TestPair pair_;
};

TEST_F(RcAtomicTest, FetchAndAddAndCompareAndSwapReturnTheOldValue) {
  Store(7);
  Post(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0x100000005);
  Post(IBV_WR_ATOMIC_CMP_AND_SWP, 2, 0x10000000C, 99);
  Post(IBV_WR_ATOMIC_CMP_AND_SWP, 3, 98, 1234);
  Post(IBV_WR_ATOMIC_FETCH_AND_ADD, 4, ~0ull);
  pair_.RunToEnd();
  const std::vector<ibv_wc> all = pair_.a.Poll();
  ASSERT_EQ(all.size(), 4u);
  for (const ibv_wc& wc : all) {
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.byte_len, 8u);
  }
  EXPECT_EQ(all[0].opcode, IBV_WC_FETCH_ADD);
  EXPECT_EQ(all[1].opcode, IBV_WC_COMP_SWAP);
  EXPECT_EQ(Load(pair_.a, 8), 7u);
  EXPECT_EQ(Load(pair_.a, 16), 0x10000000Cu);
  EXPECT_EQ(Load(pair_.a, 24), 99u) << "not equal: not swapped";
  EXPECT_EQ(Load(pair_.a, 32), 99u);
  EXPECT_EQ(Load(pair_.b, 0), 98u) << "wraps";
}

// Each single frame is lost once, in turn: all is executed once, in order.
TEST_F(RcAtomicTest, AtomicsSurviveTheLossOfAnyFrame) {
  for (int lost = 0; lost < 16; ++lost) {
    Store(0);
    int count = 0;
    pair_.hook = [&](bool, const wire::RocePacket&, rte_mbuf*) {
      return count++ == lost ? PacketAction::kDrop : PacketAction::kDeliver;
    };
    for (uint64_t i = 1; i <= 4; ++i) Post(IBV_WR_ATOMIC_FETCH_AND_ADD, i, 1);
    pair_.a.PostSend(IBV_WR_RDMA_WRITE, 5, pair_.a.memory.data(), 8, Remote(64), pair_.b.key);
    pair_.RunToEnd();
    ASSERT_EQ(pair_.a.Poll().size(), 5u) << "frame " << lost;
    for (uint32_t i = 1; i <= 4; ++i) EXPECT_EQ(Load(pair_.a, 8 * i), i - 1) << "frame " << lost;
    ASSERT_EQ(Load(pair_.b, 0), 4u) << "frame " << lost;
  }
  EXPECT_GT(pair_.a.counters.implied_nak_seq_err, 0u);
  EXPECT_GT(pair_.b.counters.duplicate_request, 0u);
}

TEST_F(RcAtomicTest, DuplicatedAtomicsAreExecutedOnce) {
  Store(0);
  pair_.hook = [](bool, const wire::RocePacket&, rte_mbuf*) { return PacketAction::kDuplicate; };
  for (uint64_t i = 1; i <= 20; ++i) Post(IBV_WR_ATOMIC_FETCH_AND_ADD, i, 1);
  pair_.RunToEnd();
  EXPECT_EQ(pair_.a.Poll().size(), 20u);
  EXPECT_EQ(Load(pair_.b, 0), 20u);
  EXPECT_EQ(Load(pair_.a, 8 * 20), 19u);
}

TEST_F(RcAtomicTest, PostingAMisalignedAtomicIsRefused) {
  for (const ibv_wr_opcode opcode : {IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP}) {
    for (const uint32_t offset : {1u, 4u, 7u}) {
      EXPECT_EQ(
          pair_.a.PostAtomic(opcode, 1, pair_.a.memory.data(), Remote(offset), pair_.b.key, 1),
          EINVAL);
    }
  }
  Store(7);
  Post(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 1);
  pair_.RunToEnd();
  EXPECT_EQ(Load(pair_.b, 0), 8u) << "the queue pair goes on";
}

// Peers may send what is not taken here.
class RcMisalignedAtomicTest : public RcAtomicTest {
 protected:
  RcMisalignedAtomicTest() {
    Store(7);
    pair_.hook = [](bool, const wire::RocePacket& packet, rte_mbuf* frame) {
      if (packet.info->operation != Operation::kAtomic) return PacketAction::kDeliver;
      auto* bytes = rte_pktmbuf_mtod(frame, uint8_t*);
      wire::AtomicEth eth = packet.atomic_eth();
      eth.address += 4;
      wire::EmitAtomicEth(eth, bytes + (packet.ext(wire::kHasAtomicEth) - bytes));
      wire::EmitIcrc(wire::ComputeIcrc(packet), bytes + packet.icrc_offset);
      return PacketAction::kDeliver;
    };
  }
};

TEST_F(RcMisalignedAtomicTest, IsRefused) {
  Post(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 1);
  ExpectFailure(IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
}

TEST_F(RcMisalignedAtomicTest, IsRefusedInAlignedMemory) {
  const uint32_t key = pair_.b.regions
                           .RegisterIova(&pair_.b.pd, pair_.b.memory.data(), 64, 0x1004,
                                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
                           ->key;
  Post(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 1, 0, 0x1000, key);
  ExpectFailure(IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
}

TEST_F(RcAtomicTest, AnAlignedIovaOfMisalignedMemoryIsRefused) {
  Store(7);
  const uint32_t key = pair_.b.regions
                           .RegisterIova(&pair_.b.pd, pair_.b.memory.data() + 4, 64, 0x1000,
                                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
                           ->key;
  Post(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 1, 0, 0x1000, key);
  ExpectFailure(IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
}

TEST_F(RcAtomicTest, ARegionWithoutRemoteAtomicIsRefused) {
  Store(7);
  const uint32_t key = pair_.b.regions
                           .Register(&pair_.b.pd, pair_.b.memory.data(), 64,
                                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
                           ->key;
  Post(IBV_WR_ATOMIC_CMP_AND_SWP, 1, 7, 1, Remote(), key);
  ExpectFailure(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

TEST_F(RcAtomicTest, AnAtomicPartlyBeyondTheRegionIsRefused) {
  Store(7);
  const uint32_t key = pair_.b.regions
                           .Register(&pair_.b.pd, pair_.b.memory.data(), 12,
                                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
                           ->key;
  Post(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 1, 0, Remote(8), key);
  ExpectFailure(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

TEST_F(RcAtomicTest, AQueuePairWithoutRemoteAtomicIsRefused) {
  Store(7);
  pair_.b.endpoint->qp.attr.qp_access_flags &= ~IBV_ACCESS_REMOTE_ATOMIC;
  Post(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 1);
  ExpectFailure(IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
}

TEST_F(RcAtomicTest, PostingAnAtomicOfOtherThanEightBytesIsRefused) {
  for (const uint32_t length : {0u, 7u, 9u}) {
    EXPECT_EQ(pair_.a.PostSend(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, pair_.a.memory.data(), length,
                               Remote(), pair_.b.key),
              EINVAL);
  }
}

TEST_F(RcAtomicTest, FenceWaitsForAtomics) {
  bool answered = false;
  pair_.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf*) {
    answered |= packet.info->operation == Operation::kAtomicAck;
    if (from_a && packet.info->operation == Operation::kWrite) {
      EXPECT_TRUE(answered);
    }
    return PacketAction::kDeliver;
  };
  Post(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 1);
  pair_.a.PostSend(IBV_WR_RDMA_WRITE, 2, pair_.a.memory.data(), 8, Remote(64), pair_.b.key,
                   IBV_SEND_SIGNALED | IBV_SEND_FENCE);
  pair_.RunToEnd();
  EXPECT_EQ(pair_.a.Poll().size(), 2u);
}

// With room to remember one.
class RcAtomicResourcesTest : public RcAtomicTest {
 protected:
  static const ibv_qp_attr* Attr() {
    static ibv_qp_attr attr = TestPair::DefaultAttr();
    attr.max_dest_rd_atomic = 1;
    return &attr;
  }
  RcAtomicResourcesTest() : RcAtomicTest(Attr()) {}
};

TEST_F(RcAtomicResourcesTest, ReadsAndAtomicsShareResponderResources) {
  pair_.a.PostSend(IBV_WR_RDMA_READ, 1, pair_.a.memory.data() + 64, kMinReadRequestPackets * 1024,
                   Remote(), pair_.b.key);
  Post(IBV_WR_ATOMIC_FETCH_AND_ADD, 2, 1);
  pair_.RunToEnd();
  const std::vector<ibv_wc> all = pair_.a.Poll();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(all[1].status, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(Load(pair_.b, 0), 0u);
}

TEST_F(RcAtomicResourcesTest, DuplicatesWithoutAResourceAreDroppedAndNotExecuted) {
  std::vector<std::vector<uint8_t>> requests;
  int answers = 0;
  pair_.hook = [&](bool, const wire::RocePacket& packet, rte_mbuf* frame) {
    if (packet.info->operation == Operation::kAtomic) {
      const uint8_t* bytes = rte_pktmbuf_mtod(frame, const uint8_t*);
      requests.emplace_back(bytes, bytes + frame->data_len);
    }
    answers += packet.info->operation == Operation::kAtomicAck;
    return PacketAction::kDeliver;
  };
  for (uint64_t i = 1; i <= 2; ++i) {
    Post(IBV_WR_ATOMIC_FETCH_AND_ADD, i, 1);
    pair_.RunToEnd();
  }
  ASSERT_EQ(pair_.a.Poll().size(), 2u);
  ASSERT_EQ(requests.size(), 2u);
  for (const std::vector<uint8_t>& request : requests) {
    wire::RocePacket packet;
    ASSERT_EQ(wire::ParseRocePacket(request.data(), request.size(), &packet),
              wire::ParseResult::kOk);
    PollContext context = pair_.b.context(pair_.now_ns);
    pair_.b.endpoint->OnPacket(packet, context);
    pair_.Run();
  }
  EXPECT_EQ(Load(pair_.b, 0), 2u);
  EXPECT_EQ(answers, 3) << "the second is remembered, and answered again";
  EXPECT_EQ(pair_.b.counters.drop(Drop::kDuplicateDropped), 1u);
}

}  // namespace
}  // namespace pollux::transport
