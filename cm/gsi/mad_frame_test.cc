#include "cm/gsi/mad_frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "stack/wire/icrc.h"

namespace pollux::cm {
namespace {

class MadFrameTest : public testing::Test {
 protected:
  MadFrameTest() {
    link.Store({2, 0, 0, 0, 0, 2}, true);
    own_link.Store({2, 0, 0, 0, 0, 1}, true);
    path.own_link = &own_link;
    path.link = &link;
    for (size_t i = 0; i < mad.size(); ++i) mad[i] = static_cast<uint8_t>(i);
    frame.fill(0xEE);
  }
  void ExpectWholeFrame() {
    const size_t bytes = EmitMadFrame(path, mad, frame.data());
    ASSERT_LE(bytes, kMaxMadFrameBytes);
    const auto ethernet = wire::ParseEthernet(frame.data(), bytes);
    ASSERT_TRUE(ethernet);
    EXPECT_EQ(ethernet->destination, link.Load().mac);
    EXPECT_EQ(ethernet->source, own_link.Load().mac);
    EXPECT_EQ(ethernet->vlan_tci, path.vlan_tci);
    wire::RocePacket packet;
    ASSERT_EQ(wire::ParseRocePacket(frame.data(), bytes, &packet), wire::ParseResult::kOk);
    EXPECT_TRUE(wire::IcrcIsValid(packet));
    EXPECT_EQ(packet.icrc_offset + wire::kIcrcBytes, bytes) << "nothing behind it";
    EXPECT_EQ(packet.source(), path.source);
    EXPECT_EQ(packet.destination(), path.destination);
    EXPECT_EQ(packet.bth.dest_qpn, kGsiQpn);
    EXPECT_EQ(packet.deth(), (wire::Deth{.qkey = kGsiQkey, .source_qpn = kGsiQpn}));
    ASSERT_EQ(packet.payload_length, kMadBytes);
    EXPECT_TRUE(std::equal(mad.begin(), mad.end(), packet.payload()));
    EXPECT_TRUE(std::all_of(frame.begin() + static_cast<ptrdiff_t>(bytes), frame.end(),
                            [](uint8_t byte) { return byte == 0xEE; }));
  }

  verbs::LinkAddress own_link, link;
  verbs::AddressHandle path;
  MadBuffer mad;
  std::array<uint8_t, kMaxMadFrameBytes + 8> frame;
};

TEST_F(MadFrameTest, AnIpv4FrameIsCompleteAndValid) {
  path.source = Gid::FromIpv4(0xC0000201);
  path.destination = Gid::FromIpv4(0xC0000202);
  path.traffic_class = 0x68;
  ExpectWholeFrame();
}

TEST_F(MadFrameTest, AnIpv6FrameWithAVlanTagIsCompleteAndValid) {
  path.source.raw = {0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  path.destination = path.source;
  path.destination.raw[15] = 2;
  path.vlan_tci = 7;
  path.flow_label = 0x12345;
  ExpectWholeFrame();
}

}  // namespace
}  // namespace pollux::cm
