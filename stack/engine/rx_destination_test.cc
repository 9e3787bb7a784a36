#include "stack/io/steering/rx_destination.h"

#include <gtest/gtest.h>

#include "stack/engine/eal.h"
#include "stack/engine/frames_for_test.h"

namespace pollux::engine {
namespace {

using Kind = io::RxDestination::Kind;

class RxDestinationTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(InitEal().ok());
    pool_ = rte_pktmbuf_pool_create("owners", 31, 0, 0, 2048, SOCKET_ID_ANY);
    ASSERT_NE(pool_, nullptr);
  }
  io::RxDestination Find(const Bytes& bytes) const {
    rte_mbuf* frame = MbufOf(bytes, pool_);
    const io::RxDestination owner = classifier_.Find(*frame);
    rte_pktmbuf_free(frame);
    return owner;
  }
  static inline rte_mempool* pool_ = nullptr;
  io::RxClassifier classifier_{.workers = 3};
};

constexpr FrameKind kKinds[] = {{}, {.vlan = true}, {.ipv6 = true}, {.ipv6 = true, .vlan = true}};

TEST_F(RxDestinationTest, QueuePairNumbersSelectTheirWorker) {
  for (const FrameKind& kind : kKinds) {
    for (uint32_t worker = 0; worker < 3; ++worker) {
      const io::RxDestination owner = Find(RoceFrame(classifier_.layout.Make(worker, 3, 77), kind));
      EXPECT_EQ(owner.kind, Kind::kWorker);
      EXPECT_EQ(owner.worker, worker);
      EXPECT_TRUE(owner.is_roce);
    }
    EXPECT_EQ(Find(RoceFrame(classifier_.layout.Make(3, 3, 77), kind)).kind, Kind::kReceiver)
        << "of no worker";
    EXPECT_EQ(Find(RoceFrame(kMulticastQpn, kind)).kind, Kind::kEveryone);
    EXPECT_TRUE(Find(RoceFrame(kMulticastQpn, kind)).is_roce);
    EXPECT_EQ(Find(RoceFrame(Qpn{0}, kind)).worker, 0u);
  }
}

TEST_F(RxDestinationTest, TruncatedFramesStayWithTheReceiver) {
  for (const FrameKind& kind : kKinds) {
    const Bytes whole = RoceFrame(classifier_.layout.Make(1, 0, 2), kind);
    const size_t to_bth_end = whole.size() - kDethBytes - wire::kIcrcBytes;
    for (size_t length = 0; length <= whole.size(); ++length) {
      const io::RxDestination owner =
          Find({whole.begin(), whole.begin() + static_cast<long>(length)});
      EXPECT_EQ(owner.kind, length < to_bth_end ? Kind::kReceiver : Kind::kWorker) << length;
    }
  }
  rte_mbuf* first = MbufOf(RoceFrame(classifier_.layout.Make(1, 0, 2)), pool_);
  ASSERT_EQ(rte_pktmbuf_chain(first, MbufOf({1, 2}, pool_)), 0);
  EXPECT_EQ(classifier_.Find(*first).kind, Kind::kReceiver) << "in two segments";
  rte_pktmbuf_free(first);
}

// Told apart by their first byte; the second is there to see that all of it is given.
uint32_t ByFirstByte(std::span<const uint8_t> mad, const Gid& from, uint32_t workers) {
  if (mad.size() != 256 || mad[255] != 9) return 0;
  const bool known = from == Gid::FromIpv4(kSourceForTest) || from == Gid{};
  return known && workers == 3 ? mad[0] : 0;
}

TEST_F(RxDestinationTest, MadsGoToTheWorkerThatGsiOwnerReturns) {
  Bytes mad(256);
  mad[255] = 9;
  for (const FrameKind& kind : kKinds) {
    mad[0] = 2;
    classifier_.gsi_owner = nullptr;
    EXPECT_EQ(Find(RoceFrame(kGsiQpn, kind, mad)).kind, Kind::kWorker);
    EXPECT_EQ(Find(RoceFrame(kGsiQpn, kind, mad)).worker, 0u);
    classifier_.gsi_owner = &ByFirstByte;
    EXPECT_EQ(Find(RoceFrame(kGsiQpn, kind, mad)).worker, 2u);
    mad[0] = 3;
    EXPECT_EQ(Find(RoceFrame(kGsiQpn, kind, mad)).worker, 0u) << "past the last";
  }
  Bytes cut = RoceFrame(kGsiQpn, {}, mad);
  cut.pop_back();
  EXPECT_EQ(Find(cut).kind, Kind::kReceiver);
}

TEST_F(RxDestinationTest, LinkProtocolsGoToEveryWorkerAndTheRestToTheFirst) {
  const Bytes advertisement = {wire::kIcmpv6NeighbourAdvertisement, 0, 0, 0};
  const Bytes solicitation = {wire::kIcmpv6NeighbourSolicitation, 0, 0, 0};
  for (const bool vlan : {false, true}) {
    const FrameKind ipv4{.vlan = vlan}, ipv6{.ipv6 = true, .vlan = vlan};
    const Bytes talk[] = {OtherFrame(wire::kEtherTypeArp, vlan),
                          IpFrame(wire::kIpProtocolIgmp, Bytes(8), ipv4),
                          IpFrame(wire::kIpProtocolHopByHop, Bytes(32), ipv6),
                          IpFrame(wire::kIpProtocolIcmpV6, advertisement, ipv6)};
    const Bytes others[] = {OtherFrame(0x88CC, vlan),
                            IpFrame(wire::kIpProtocolTcp, Bytes(20), ipv4),
                            IpFrame(wire::kIpProtocolIcmp, Bytes(8), ipv4),
                            IpFrame(wire::kIpProtocolIcmpV6, solicitation, ipv6),
                            IpFrame(wire::kIpProtocolIcmpV6, {}, ipv6)};
    using Others = io::RxClassifier::Others;
    for (const Bytes& frame : talk) {
      classifier_.others = Others::kAnswered;
      EXPECT_EQ(Find(frame).kind, Kind::kEveryone);
      EXPECT_FALSE(Find(frame).is_roce);
      classifier_.others = Others::kToFirst;
      EXPECT_EQ(Find(frame).kind, Kind::kWorker);
      EXPECT_EQ(Find(frame).worker, 0u);
      classifier_.others = Others::kLeft;
      EXPECT_EQ(Find(frame).kind, Kind::kReceiver);
    }
    for (const Bytes& frame : others) {
      for (const Others what : {Others::kAnswered, Others::kToFirst}) {
        classifier_.others = what;
        EXPECT_EQ(Find(frame).kind, Kind::kWorker);
        EXPECT_EQ(Find(frame).worker, 0u);
        EXPECT_FALSE(Find(frame).is_roce);
      }
      classifier_.others = Others::kLeft;
      EXPECT_EQ(Find(frame).kind, Kind::kReceiver);
    }
  }
}

}  // namespace
}  // namespace pollux::engine
