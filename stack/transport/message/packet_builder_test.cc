#include "stack/transport/message/packet_builder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "stack/base/qpn_layout.h"
#include "stack/transport/message/short_frames.h"
#include "stack/transport/test_pair.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ext_headers.h"
#include "stack/wire/icrc.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/udp.h"

namespace pollux::transport {
namespace {

TEST(FlowSourcePortTest, IsDynamicAndConstantPerFlow) {
  const Gid source = Gid::FromIpv4(0xC0000201);
  for (uint32_t i = 1; i < 5000; i += 7) {
    const uint16_t port = FlowSourcePort(source, Qpn{i}, Qpn{i * 31});
    EXPECT_GE(port, 0xC000);
    EXPECT_EQ(port, FlowSourcePort(source, Qpn{i}, Qpn{i * 31}));
  }
}

TEST(FlowSourcePortTest, TheLowestBitsNameTheWorker) {
  Gid ipv6{.raw = {0x20, 0x01, 0x0D, 0xB8}};
  ipv6.raw[9] = 0x35;
  for (uint32_t worker = 0; worker < 16; ++worker) {
    const Qpn remote = QpnLayout{}.Make(worker, 5, 77);
    EXPECT_EQ(FlowSourcePort(Gid::FromIpv4(0xC0000201), Qpn{5}, remote) % 16, worker);
    EXPECT_EQ(FlowSourcePort(ipv6, Qpn{5}, remote) % 16, worker ^ 5);
  }
}

TEST(FlowSourcePortTest, TheOtherBitsDifferFromFlowToFlow) {
  std::set<uint16_t> ports;
  for (uint32_t i = 2; i < 258; ++i) {
    ports.insert(FlowSourcePort(Gid::FromIpv4(0xC0000201), Qpn{i}, Qpn{3 * i}));
  }
  EXPECT_GT(ports.size(), 150u) << "of 1,024";
}

struct PathCase {
  const char* name;
  bool ipv6;
  std::optional<uint16_t> vlan_tci;
  size_t headers;  // Ethernet and IP
};

class PacketBuilderPathTest : public ::testing::TestWithParam<PathCase> {};

Gid Ipv6Address(uint8_t last) {
  return {.raw = {0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}};
}

TEST_P(PacketBuilderPathTest, EveryLengthParsesBackWithAValidIcrc) {
  TestPair pair;
  PacketBuilder builder;
  verbs::AddressHandle path = pair.a.endpoint->qp.path;
  verbs::LinkAddress own_link;
  own_link.Store({2, 0, 0, 0, 0, 0x55}, true);
  path.own_link = &own_link;
  path.traffic_class = 0x68;
  path.hop_limit = 17;
  path.vlan_tci = GetParam().vlan_tci;
  if (GetParam().ipv6) {
    path.source = Ipv6Address(1);
    path.destination = Ipv6Address(2);
  }
  builder.Reset(&path, Qpn{0x111}, Qpn{0x222});
  PollContext context = pair.a.context(0);
  for (uint32_t length = 0; length <= 1024; length += length < 16 ? 1 : 63) {
    ASSERT_TRUE(builder.Begin({.opcode = wire::Opcode::kRcSendOnly,
                               .psn = Psn(0xABCDEF),
                               .solicited = true,
                               .ack_request = true,
                               .payload_bytes = length},
                              context));
    builder.Copy(pair.a.memory.data(), length);
    builder.Finish(context);
    pair.a.egress.Flush(0);
    ASSERT_EQ(pair.a.outgoing.size(), 1u);
    rte_mbuf* frame = pair.a.outgoing.front();
    pair.a.outgoing.pop_front();
    const auto* bytes = rte_pktmbuf_mtod(frame, uint8_t*);
    wire::RocePacket packet;
    ASSERT_EQ(wire::ParseRocePacket(bytes, frame->data_len, &packet), wire::ParseResult::kOk);
    EXPECT_TRUE(wire::IcrcIsValid(packet)) << length;
    EXPECT_EQ(packet.payload_length, length);
    EXPECT_EQ(packet.bth.psn, Psn(0xABCDEF));
    EXPECT_EQ(packet.bth.dest_qpn, Qpn{0x222});
    EXPECT_TRUE(packet.bth.solicited);
    EXPECT_TRUE(packet.bth.ack_request);
    EXPECT_EQ(packet.bth.pad, -length & 3);
    EXPECT_EQ(packet.source(), path.source);
    EXPECT_EQ(packet.destination(), path.destination);
    EXPECT_EQ(frame->data_len,
              GetParam().headers + 8 + wire::kBthBytes + length + packet.bth.pad + 4);
    const auto ethernet = wire::ParseEthernet(bytes, frame->data_len);
    EXPECT_EQ(ethernet->source, own_link.Load().mac);
    EXPECT_EQ(ethernet->vlan_tci, path.vlan_tci);
    const uint8_t* l3 = bytes + packet.l3_offset;
    const size_t l3_bytes = frame->data_len - packet.l3_offset;
    if (GetParam().ipv6) {
      const auto ip = wire::ParseIpv6(l3, l3_bytes);
      ASSERT_TRUE(ip.has_value());
      EXPECT_EQ(ip->traffic_class, 0x68);
      EXPECT_EQ(ip->hop_limit, 17);
      EXPECT_EQ(ip->flow_label, 0u);
      EXPECT_EQ(ip->payload_length, l3_bytes - wire::kIpv6Bytes);
    } else {
      const auto ip = wire::ParseIpv4(l3, l3_bytes);  // with its checksum
      ASSERT_TRUE(ip.has_value());
      EXPECT_EQ(ip->tos, 0x68);
      EXPECT_EQ(ip->ttl, 17);
      EXPECT_EQ(ip->fragment, wire::kIpv4DontFragment);
      EXPECT_EQ(ip->total_length, l3_bytes);
    }
    rte_pktmbuf_free(frame);
  }
}

INSTANTIATE_TEST_SUITE_P(All, PacketBuilderPathTest,
                         ::testing::Values(PathCase{"Ipv4", false, std::nullopt, 34},
                                           PathCase{"Ipv4Vlan", false, 0x6005, 38},
                                           PathCase{"Ipv6Address", true, std::nullopt, 54},
                                           PathCase{"Ipv6Vlan", true, 0xE00A, 58}),
                         [](const auto& info) { return std::string(info.param.name); });

class LongPayloadTest : public ::testing::Test {
 protected:
  LongPayloadTest() {
    builder_.Reset(&pair_.a.endpoint->qp.path, Qpn{1}, Qpn{2});
    for (size_t i = 0; i < pair_.a.memory.size(); ++i) {
      pair_.a.memory[i] = static_cast<uint8_t>(i * 7 + (i >> 8));
    }
  }
  // The payload in pieces of so many bytes; the packet must hold it, with the ICRC that it needs.
  // Returns where in its buffer the payload lies.
  size_t OffsetAfter(uint32_t length, uint8_t ext_bytes, uint32_t piece) {
    PollContext context = pair_.a.context(0);
    const auto opcode = ext_bytes == 0 ? wire::Opcode::kRcWriteMiddle : wire::Opcode::kRcWriteFirst;
    EXPECT_TRUE(builder_.Begin(
        {.opcode = opcode, .psn = Psn(5), .ext_bytes = ext_bytes, .payload_bytes = length},
        context));
    std::fill_n(builder_.ext(), ext_bytes, uint8_t{0x3C});
    for (uint32_t done = 0; done < length; done += piece) {
      builder_.Copy(pair_.a.memory.data() + done, std::min(piece, length - done));
    }
    builder_.Finish(context);
    pair_.a.egress.Flush(0);
    rte_mbuf* frame = pair_.a.outgoing.front();
    pair_.a.outgoing.pop_front();
    wire::RocePacket packet;
    EXPECT_EQ(wire::ParseRocePacket(rte_pktmbuf_mtod(frame, uint8_t*), rte_pktmbuf_data_len(frame),
                                    &packet),
              wire::ParseResult::kOk);
    EXPECT_TRUE(wire::IcrcIsValid(packet)) << length << " " << piece;
    EXPECT_EQ(packet.payload_length, length);
    EXPECT_EQ(std::memcmp(packet.payload(), pair_.a.memory.data(), length), 0) << length;
    const auto offset =
        static_cast<size_t>(packet.payload() - static_cast<uint8_t*>(frame->buf_addr));
    rte_pktmbuf_free(frame);
    return offset;
  }
  TestPair pair_;
  PacketBuilder builder_;
};

TEST_F(LongPayloadTest, StartsOnACacheLine) {
  for (const uint8_t ext_bytes : {size_t{0}, wire::kRethBytes}) {
    for (const uint32_t length : {512u, 1024u, 2048u, 4096u}) {
      EXPECT_EQ(OffsetAfter(length, ext_bytes, length) % RTE_CACHE_LINE_SIZE, 0u) << length;
    }
  }
}

TEST_F(LongPayloadTest, CanBeWrittenInPieces) {
  for (const uint32_t length : {511u, 513u, 1023u, 1024u, 1025u, 2047u, 2050u, 4095u, 4096u}) {
    for (const uint32_t piece : {1u, 15u, 16u, 100u, 1000u}) {
      OffsetAfter(length, 0, piece);
      OffsetAfter(length, wire::kRethBytes, piece);
    }
  }
}

// In a buffer that is filled to the last byte the payload lies where it fits.
TEST_F(LongPayloadTest, IsUnalignedInAFullBuffer) {
  constexpr uint32_t kBeside = wire::kEthernetBytes + wire::kIpv4Bytes + wire::kUdpBytes +
                               wire::kBthBytes + wire::kIcrcBytes;
  const uint32_t room = rte_pktmbuf_data_room_size(pair_.a.pool) - RTE_PKTMBUF_HEADROOM;
  const uint32_t most = (room - kBeside) / 4 * 4;
  EXPECT_EQ(OffsetAfter(most, 0, most), RTE_PKTMBUF_HEADROOM + kBeside - wire::kIcrcBytes);
  PollContext context = pair_.a.context(0);
  EXPECT_FALSE(builder_.Begin(
      {.opcode = wire::Opcode::kRcWriteMiddle, .psn = Psn(5), .payload_bytes = most + 4}, context));
  EXPECT_EQ(pair_.a.counters.drop(Drop::kNoBuffer), 1u);
}

// IB specification section 9.2: whatever the buffer has held before.
TEST(PacketBuilderTest, PadBytesAreZero) {
  TestPair pair;
  std::vector<rte_mbuf*> all;
  while (rte_mbuf* frame = pair.a.egress.Allocate()) all.push_back(frame);
  for (rte_mbuf* frame : all) {
    std::memset(frame->buf_addr, 0xFF, frame->buf_len);
    rte_pktmbuf_free(frame);
  }
  QpDiagnostics diagnostics;
  PacketBuilder builder(&diagnostics);
  builder.Reset(&pair.a.endpoint->qp.path, Qpn{1}, Qpn{2});
  PollContext context = pair.a.context(0);
  const uint8_t* const data = pair.a.memory.data();
  for (uint32_t bytes = 1; bytes < 4; ++bytes) {
    const PacketBuilder::Spec spec{
        .opcode = wire::Opcode::kRcSendOnly, .psn = Psn(1), .payload_bytes = bytes};
    ASSERT_TRUE(builder.Begin(spec, context));
    builder.Copy(data, bytes);
    builder.Finish(context);
    ASSERT_TRUE(builder.Send(spec, data, context));
    ShortFrames<true> frames(builder, pair.a.egress, 1);
    ASSERT_EQ(frames.room(), 1u);
    frames.Add({.length = bytes}, spec.psn, /*ack_request=*/false, data);
    frames.Finish(0);
  }
  pair.a.egress.Flush(0);
  ASSERT_EQ(pair.a.outgoing.size(), 9u);
  for (rte_mbuf* frame : pair.a.outgoing) {
    wire::RocePacket packet;
    ASSERT_EQ(
        wire::ParseRocePacket(rte_pktmbuf_mtod(frame, const uint8_t*), frame->data_len, &packet),
        wire::ParseResult::kOk);
    EXPECT_TRUE(wire::IcrcIsValid(packet));
    const uint8_t* const pad = packet.payload() + packet.payload_length;
    ASSERT_EQ(packet.bth.pad, 4 - packet.payload_length);
    EXPECT_TRUE(std::all_of(pad, pad + packet.bth.pad, [](uint8_t byte) { return byte == 0; }));
  }
}

TEST(PacketBuilderTest, FollowsANeighbourThatMoves) {
  TestPair pair;
  PacketBuilder builder;
  builder.Reset(&pair.a.endpoint->qp.path, Qpn{1}, Qpn{2});
  PollContext context = pair.a.context(0);
  for (uint8_t last : {1, 2, 2, 3}) {
    if (pair.a.link_address.Load().mac[5] != last) {
      pair.a.link_address.Store({2, 0, 0, 0, 0, last}, true);
    }
    ASSERT_TRUE(builder.Begin({.opcode = wire::Opcode::kRcSendOnly, .psn = Psn(1)}, context));
    builder.Finish(context);
    pair.a.egress.Flush(0);
    rte_mbuf* frame = pair.a.outgoing.back();
    EXPECT_EQ(rte_pktmbuf_mtod(frame, uint8_t*)[5], last);
  }
}

TEST(PacketBuilderTest, FollowsAChangeOfTheOwnAddress) {
  TestPair pair;
  PacketBuilder builder;
  verbs::LinkAddress own_link;
  verbs::AddressHandle path = pair.a.endpoint->qp.path;
  path.own_link = &own_link;
  builder.Reset(&path, Qpn{1}, Qpn{2});
  PollContext context = pair.a.context(0);
  for (uint8_t last : {1, 2}) {
    own_link.Store({2, 0, 0, 0, 0, last}, true);
    pair.a.link_address.Renew();
    ASSERT_TRUE(builder.Begin({.opcode = wire::Opcode::kRcSendOnly, .psn = Psn(1)}, context));
    builder.Finish(context);
    pair.a.egress.Flush(0);
    EXPECT_EQ(rte_pktmbuf_mtod(pair.a.outgoing.back(), uint8_t*)[11], last);
  }
}

}  // namespace
}  // namespace pollux::transport
