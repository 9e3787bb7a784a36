#include "cm/wire/mad.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cm/wire/cma_header.h"
#include "cm/wire/mad_samples.h"
#include "cm/wire/service_id.h"
#include "stack/base/random.h"

namespace pollux::cm {
namespace {

MadBuffer Sample(std::string_view name) {
  for (const MadSample& sample : kMadSamples) {
    if (sample.name == name) return BytesOf(sample);
  }
  ADD_FAILURE() << "no sample " << name;
  return {};
}

template <class T>
T ParseAs(std::string_view name) {
  const MadBuffer bytes = Sample(name);
  const std::optional<Mad> mad = ParseMad(bytes);
  EXPECT_TRUE(mad.has_value()) << name;
  EXPECT_EQ(mad->header.attribute, T::kAttribute);
  return std::get<T>(mad->message);
}

constexpr Gid kClient = Gid::FromIpv4(0xC0000202);  // 192.0.2.2
constexpr Gid kServer = Gid::FromIpv4(0xC0000201);

TEST(MadTest, SamplesReencodeByteForByte) {
  for (const MadSample& sample : kMadSamples) {
    const MadBuffer bytes = BytesOf(sample);
    const std::optional<Mad> mad = ParseMad(bytes);
    ASSERT_TRUE(mad.has_value()) << sample.name;
    MadBuffer again;
    again.fill(0xEE);
    EmitMad(*mad, again);
    EXPECT_EQ(again, bytes) << sample.name;
  }
}

// Whatever stands in reserved fields survives too.
TEST(MadTest, AnyBytesReencodeByteForByte) {
  Random random(1);
  for (uint16_t attribute = 0x10; attribute <= 0x1A; ++attribute) {
    for (int round = 0; round < 50; ++round) {
      MadBuffer bytes;
      for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.Next64());
      bytes[0] = kMadBaseVersion;
      bytes[1] = kMadClassCm;
      bytes[2] = kMadClassVersionCm;
      bytes[16] = 0;
      bytes[17] = static_cast<uint8_t>(attribute);
      const std::optional<Mad> mad = ParseMad(bytes);
      ASSERT_TRUE(mad.has_value());
      MadBuffer again;
      EmitMad(*mad, again);
      ASSERT_EQ(again, bytes) << AttributeName(mad->header.attribute);
    }
  }
}

TEST(MadTest, RefusesEveryOtherLength) {
  const MadBuffer req = Sample("nfs_v3_req");
  std::vector<uint8_t> bytes(req.begin(), req.end());
  bytes.push_back(0);
  EXPECT_FALSE(ParseMad(bytes).has_value());
  for (size_t length = 0; length < kMadBytes; ++length) {
    EXPECT_FALSE(ParseMad(std::span(bytes).first(length)).has_value()) << length;
  }
}

TEST(MadTest, RefusesOtherClassesVersionsAndAttributes) {
  for (const size_t at : {0, 1, 2, 16, 17}) {
    MadBuffer bytes = Sample("nfs_v3_req");
    bytes[at] ^= 0x80;
    EXPECT_FALSE(ParseMad(bytes).has_value()) << at;
    EXPECT_TRUE(ParseMadHeader(bytes).has_value());
  }
}

TEST(MadTest, TheRequestOfALinuxNfsClientParses) {
  const Req req = ParseAs<Req>("nfs_v3_req");
  EXPECT_EQ(req.local_comm_id, 0xAC8A38C4u);
  EXPECT_EQ(req.service_id, (ServiceId{RDMA_PS_TCP, 20049}.ToWire()));
  EXPECT_EQ(req.local_ca_guid, 0x505400FFFE000002u);
  EXPECT_EQ(req.local_qpn, 0x45u);
  EXPECT_EQ(req.responder_resources, 128);
  EXPECT_EQ(req.initiator_depth, 0);
  EXPECT_EQ(req.remote_cm_response_timeout, 20);
  EXPECT_EQ(req.local_cm_response_timeout, 20);
  EXPECT_EQ(req.transport_type, 0);
  EXPECT_EQ(req.flow_control, 0);
  EXPECT_EQ(req.starting_psn, 0xA4F77Fu);
  EXPECT_EQ(req.retry_count, 6);
  EXPECT_EQ(req.rnr_retry_count, 0);
  EXPECT_EQ(req.pkey, 0xFFFF);
  EXPECT_EQ(req.path_mtu, 5);
  EXPECT_EQ(req.max_cm_retries, 15);
  EXPECT_EQ(req.primary.local_lid, 0xFFFF);
  EXPECT_EQ(req.primary.local_gid, kClient);
  EXPECT_EQ(req.primary.remote_gid, kServer);
  EXPECT_EQ(req.primary.hop_limit, 64);
  EXPECT_EQ(req.primary.ack_timeout, 19);
  const std::optional<CmaHeader> cma = CmaHeader::Parse(req.private_data);
  ASSERT_TRUE(cma.has_value());
  EXPECT_EQ(cma->source_port, 0xA86B);
  EXPECT_EQ(cma->source, kClient);
  EXPECT_EQ(cma->destination, kServer);
  EXPECT_EQ(req.private_data[kCmaHeaderBytes], 0xF6);  // the user's begins here
}

TEST(MadTest, TheReplyOfALinuxNfsServerParses) {
  const Rep rep = ParseAs<Rep>("nfs_v3_rep");
  EXPECT_EQ(rep.local_comm_id, 0xCFB7F7B6u);
  EXPECT_EQ(rep.remote_comm_id, 0xAC8A38C4u);
  EXPECT_EQ(rep.local_qpn, 0x41u);
  EXPECT_EQ(rep.starting_psn, 0x988795u);
  EXPECT_EQ(rep.responder_resources, 0);
  EXPECT_EQ(rep.initiator_depth, 128);
  EXPECT_EQ(rep.target_ack_delay, 15);
  EXPECT_EQ(rep.rnr_retry_count, 0);
  EXPECT_EQ(rep.srq, 0);
  EXPECT_EQ(rep.local_ca_guid, 0x505400FFFE000001u);
  EXPECT_EQ(rep.private_data[0], 0xF6);
}

TEST(MadTest, TheReplyOfUcmatoseParses) {
  const Rep rep = ParseAs<Rep>("ucmatose_rep");
  EXPECT_EQ(rep.responder_resources, 1);
  EXPECT_EQ(rep.initiator_depth, 1);
  EXPECT_EQ(rep.rnr_retry_count, 7);
}

TEST(MadTest, OtherCapturedMessagesParse) {
  const Rtu rtu = ParseAs<Rtu>("nfs_v3_rtu");
  EXPECT_EQ(rtu.local_comm_id, 0xAC8A38C4u);
  EXPECT_EQ(rtu.remote_comm_id, 0xCFB7F7B6u);
  const Dreq dreq = ParseAs<Dreq>("ucmatose_dreq");
  EXPECT_EQ(dreq.local_comm_id, 0xEAB7F7B6u);
  EXPECT_EQ(dreq.remote_comm_id, 0xBE8A38C4u);
  EXPECT_EQ(dreq.remote_qpn, 0x16u);
  const Drep drep = ParseAs<Drep>("ucmatose_drep");
  EXPECT_EQ(drep.local_comm_id, 0xBE8A38C4u);
  const Rej rej = ParseAs<Rej>("nfs_refused_rej");
  EXPECT_EQ(rej.local_comm_id, 0u);
  EXPECT_EQ(rej.remote_comm_id, 0xA08A38C4u);
  EXPECT_EQ(rej.message_rejected, 0);
  EXPECT_EQ(rej.reason, 8);
  const SidrReq sidr_req = ParseAs<SidrReq>("udaddy_sidr_req");
  EXPECT_EQ(ServiceId::FromWire(sidr_req.service_id), (ServiceId{RDMA_PS_UDP, 7174}));
  const SidrRep sidr_rep = ParseAs<SidrRep>("udaddy_sidr_rep");
  EXPECT_EQ(sidr_rep.qpn, 0x17u);
  EXPECT_EQ(sidr_rep.service_id, sidr_req.service_id);
  EXPECT_EQ(sidr_rep.qkey, 0x01234567u);
}

TEST(MadTest, HandBuiltMessagesParse) {
  const Mra mra = ParseAs<Mra>("built_mra_for_req");
  EXPECT_EQ(mra.local_comm_id, 0x02000002u);
  EXPECT_EQ(mra.message_mraed, 0);
  EXPECT_EQ(mra.service_timeout, 24);
  const Lap lap = ParseAs<Lap>("built_lap");
  EXPECT_EQ(lap.remote_qpn, 0x15u);
  EXPECT_EQ(lap.remote_cm_response_timeout, 20);
  EXPECT_EQ(lap.alternate_local_gid, Gid::FromIpv4(0xC0000205));
  EXPECT_EQ(lap.hop_limit, 64);
  EXPECT_EQ(lap.service_level, 3);
  EXPECT_EQ(lap.subnet_local, 1);
  EXPECT_EQ(lap.ack_timeout, 18);
  EXPECT_EQ(ParseAs<Apr>("built_apr_unsupported").ap_status, kAprStatusUnsupported);
}

TEST(MadTest, EmitTruncatesValuesToTheirFields) {
  MadBuffer out;
  EmitMad(MadHeader{}, Rtu{.local_comm_id = 1, .remote_comm_id = 2, .private_data = {}}, out);
  EXPECT_EQ(ParseMadHeader(out)->attribute, Attribute::kRtu);
  EmitMad(MadHeader{}, Dreq{.remote_qpn = 0xFF123456}, out);
  const Dreq dreq = std::get<Dreq>(ParseMad(out)->message);
  EXPECT_EQ(dreq.remote_qpn, 0x123456u);
  EXPECT_EQ(dreq.remote_comm_id, 0u);
}

TEST(MadTest, AttributesHaveTheirNames) {
  EXPECT_EQ(AttributeName(Attribute::kClassPortInfo), "ClassPortInfo");
  EXPECT_EQ(AttributeName(Attribute::kReq), "REQ");
  EXPECT_EQ(AttributeName(Attribute::kApr), "APR");
  EXPECT_EQ(AttributeName(static_cast<Attribute>(0x999)), "attribute?");
}

TEST(ServiceIdTest, ServiceIdsEncodePortSpaceAndPort) {
  EXPECT_EQ((ServiceId{RDMA_PS_UDP, 5000}.ToWire()), 0x01111388u);
  EXPECT_EQ(ServiceId::FromWire(0x01064E51), (ServiceId{RDMA_PS_TCP, 20049}));
  EXPECT_EQ(ServiceId::FromWire(0x013F0001), (ServiceId{RDMA_PS_IB, 1}));
  EXPECT_FALSE(ServiceId::FromWire(0x02064E51).has_value());
  EXPECT_FALSE(ServiceId::FromWire(0x8000000001064E51).has_value());
}

TEST(CmaHeaderTest, Ipv4HeadersRoundTrip) {
  const CmaHeader header{
      .version = 0, .source_port = 43115, .source = kClient, .destination = kServer};
  std::array<uint8_t, kCmaHeaderBytes> bytes;
  header.Emit(bytes);
  EXPECT_EQ(bytes[1], 0x40);
  EXPECT_EQ(bytes[15], 0);  // no ::ffff: prefix on the wire
  EXPECT_EQ(bytes[16], 192);
  EXPECT_EQ(bytes[35], 1);
  EXPECT_EQ(CmaHeader::Parse(bytes), header);
}

TEST(CmaHeaderTest, Ipv6HeadersRoundTrip) {
  CmaHeader header{.version = 0, .source_port = 1, .source = {}, .destination = {}};
  header.source.raw = {0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  header.destination.raw = {0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
  std::array<uint8_t, kCmaHeaderBytes> bytes;
  header.Emit(bytes);
  EXPECT_EQ(bytes[1], 0x60);
  EXPECT_EQ(CmaHeader::Parse(bytes), header);
}

TEST(CmaHeaderTest, RefusesShortHeadersAndUnknownVersions) {
  std::array<uint8_t, kCmaHeaderBytes> bytes{};
  bytes[1] = 0x40;
  EXPECT_TRUE(CmaHeader::Parse(bytes).has_value());
  for (size_t length = 0; length < kCmaHeaderBytes; ++length) {
    EXPECT_FALSE(CmaHeader::Parse(std::span(bytes).first(length)).has_value());
  }
  bytes[1] = 0x50;
  EXPECT_FALSE(CmaHeader::Parse(bytes).has_value());
  bytes[1] = 0x40;
  bytes[0] = 0x10;
  EXPECT_FALSE(CmaHeader::Parse(bytes).has_value());
}

}  // namespace
}  // namespace pollux::cm
