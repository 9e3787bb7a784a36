#include "stack/transport/rc/send_cursor.h"

#include <gtest/gtest.h>

#include "stack/transport/test_pair.h"

namespace pollux::transport {
namespace {

TEST(ReadWindowTest, IsLimitedByBytesAndPackets) {
  EXPECT_EQ(ReadWindow(256), kMaxReadWindow);
  EXPECT_EQ(ReadWindow(512), kMaxReadWindow);
  EXPECT_EQ(ReadWindow(1024), 192u);
  EXPECT_EQ(ReadWindow(4096), 48u);
}

// In powers of two.
TEST(ReadRequestPacketsTest, TheWindowIsDividedByTheDepth) {
  EXPECT_EQ(ReadRequestPackets(0, 1024), 128u);
  EXPECT_EQ(ReadRequestPackets(1, 1024), 128u);
  EXPECT_EQ(ReadRequestPackets(2, 1024), 64u);
  EXPECT_EQ(ReadRequestPackets(3, 1024), 64u);
  EXPECT_EQ(ReadRequestPackets(255, 1024), kMinReadRequestPackets);
  EXPECT_EQ(ReadRequestPackets(1, 512), kMaxReadWindow);
  EXPECT_EQ(ReadRequestPackets(255, 256), kMinReadRequestPackets);
  EXPECT_EQ(ReadRequestPackets(1, 4096), 32u);
  EXPECT_EQ(ReadRequestPackets(2, 4096), 16u);
  EXPECT_EQ(ReadRequestPackets(4, 4096), 16u);
  EXPECT_EQ(ReadRequestPackets(255, 4096), kMinReadRequestBytes / 4096);
}

// A SEND of 3 packets, a READ of 70 in requests of 32, an atomic, a SEND; numbered from kFirst on.
class SendCursorTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kMtu = 1024;
  SendCursorTest() {
    const uint8_t* memory = pair_.a.memory.data();
    pair_.a.PostSend(IBV_WR_SEND, 0, memory, 3 * kMtu);
    pair_.a.PostSend(IBV_WR_RDMA_READ, 1, memory, 70 * kMtu, 0, 1);
    pair_.a.PostAtomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 2, pair_.a.memory.data(), 0, 1, 1);
    pair_.a.PostSend(IBV_WR_SEND, 3, memory, 1);
    cursor_.Start();
  }
  // Sends everything.
  void PassAll() {
    Psn next = kFirst;
    while (!cursor_.AtEnd()) {
      verbs::SendWqe& wqe = cursor_.wqe();
      wqe.numbered = true;
      wqe.first_psn = next;
      next += wqe.packets;
      for (uint32_t packet = 0; packet < wqe.packets;) {
        packet = wqe.has_response() ? cursor_.RequestEnd(wqe, packet) : packet + 1;
        cursor_.Advance(packet);
      }
    }
  }
  void ExpectAt(uint32_t index, uint32_t packet) {
    EXPECT_EQ(cursor_.index(), index);
    EXPECT_EQ(cursor_.packet(), packet);
  }
  void ExpectWaitsFor(uint32_t reads, uint32_t psns) {
    EXPECT_EQ(cursor_.reads(), reads);
    EXPECT_EQ(cursor_.read_psns(), psns);
  }
  const Psn kFirst{0xFFFFF0};
  TestPair pair_;
  SendCursor cursor_{&pair_.a.endpoint->qp};
};

TEST_F(SendCursorTest, RequestBoundariesDoNotDependOnWhereReadsResume) {
  const verbs::SendWqe& read = pair_.a.endpoint->qp.sq(1);
  EXPECT_EQ(cursor_.RequestEnd(read, 0), 32u);
  EXPECT_EQ(cursor_.RequestEnd(read, 31), 32u);
  EXPECT_EQ(cursor_.RequestEnd(read, 32), 64u);
  EXPECT_EQ(cursor_.RequestEnd(read, 65), 70u);
}

TEST_F(SendCursorTest, CountsOutstandingReadsAndPackets) {
  PassAll();
  ExpectAt(4, 0);
  ExpectWaitsFor(4, 71);
}

TEST_F(SendCursorTest, MovesBackToAnyPsn) {
  PassAll();
  cursor_.MoveTo(kFirst, kFirst);
  ExpectAt(0, 0);
  ExpectWaitsFor(0, 0);
  cursor_.MoveTo(kFirst + 2, kFirst + 1);
  ExpectAt(0, 2);
  ExpectWaitsFor(0, 0);
  cursor_.MoveTo(kFirst + 3 + 64, kFirst + 1);
  ExpectAt(1, 64);
  ExpectWaitsFor(2, 64);
  // Between `una` and the cursor one request has its end.
  cursor_.MoveTo(kFirst + 3 + 64, kFirst + 3 + 40);
  ExpectAt(1, 64);
  ExpectWaitsFor(1, 24);
  cursor_.MoveTo(kFirst + 3 + 70 + 1, kFirst);
  ExpectAt(3, 0);
  ExpectWaitsFor(4, 71);
  cursor_.MoveTo(kFirst + 3 + 70 + 2, kFirst);
  EXPECT_TRUE(cursor_.AtEnd());
  ExpectWaitsFor(4, 71);
}

TEST_F(SendCursorTest, ResponsesReduceTheOutstandingCounts) {
  PassAll();
  pair_.a.endpoint->qp.CompleteSend(IBV_WC_SUCCESS);  // the SEND
  const Psn read = kFirst + 3;
  for (uint32_t i = 0; i < 32; ++i) cursor_.Answered(read + i);
  ExpectWaitsFor(3, 39);
  for (uint32_t i = 32; i < 70; ++i) cursor_.Answered(read + i);
  ExpectWaitsFor(1, 1);
}

TEST_F(SendCursorTest, ResponsesBeyondTheCursorDoNotReduceTheCounts) {
  PassAll();
  pair_.a.endpoint->qp.CompleteSend(IBV_WC_SUCCESS);
  const Psn read = kFirst + 3;
  cursor_.MoveTo(read, read);
  EXPECT_FALSE(cursor_.Beyond(read));
  cursor_.Answered(read);
  ExpectWaitsFor(0, 0);
  EXPECT_TRUE(cursor_.CatchUp(read + 1));
  ExpectAt(1, 1);
  EXPECT_FALSE(cursor_.CatchUp(read + 1));
  cursor_.Advance(32);
  ExpectWaitsFor(1, 31);
  EXPECT_TRUE(cursor_.Beyond(read + 1));
  EXPECT_FALSE(cursor_.Beyond(read + 32));
}

TEST_F(SendCursorTest, CatchUpMovesPastCompletedRequests) {
  PassAll();
  cursor_.MoveTo(kFirst, kFirst);
  pair_.a.endpoint->qp.CompleteSend(IBV_WC_SUCCESS);
  EXPECT_FALSE(cursor_.Beyond(kFirst + 3));
  EXPECT_TRUE(cursor_.CatchUp(kFirst + 3));
  ExpectAt(1, 0);
}

}  // namespace
}  // namespace pollux::transport
