// IGMP and MLD: what hosts and routers tell each other about groups.
#include <gtest/gtest.h>

#include <vector>

#include "stack/base/byte_order.h"
#include "stack/wire/checksum.h"
#include "stack/wire/icmpv6.h"
#include "stack/wire/igmp.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/mld.h"
#include "stack/wire/test_frames.h"

namespace pollux::wire {
namespace {

using Buffer = std::vector<uint8_t>;

constexpr Gid kIpv6Group{{0xFF, 0x0E, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34}};

Buffer IgmpQuery(const char* hex) {
  Buffer bytes = FromHex(hex);
  StoreBe16(&bytes[2], InternetChecksum(bytes.data(), bytes.size()));
  return bytes;
}

TEST(IgmpTest, AReportHasTheExpectedBytes) {
  Buffer bytes(kIgmpv3ReportBytes);
  EmitIgmpReport(GroupRecord::kJoin, Gid::FromIpv4(0xE1020304), bytes.data());
  EXPECT_EQ(InternetChecksum(bytes.data(), bytes.size()), 0);
  bytes[2] = bytes[3] = 0;
  EXPECT_EQ(bytes, FromHex("220000000000000104000000e1020304"));
}

TEST(IgmpTest, QueriesOfAllVersionsParse) {
  // Version 3, about all groups, 10 s.
  Buffer query = IgmpQuery("116400000000000002140000");
  EXPECT_EQ(ParseIgmpQuery(query.data(), query.size()),
            (MembershipQuery{.group = Gid::FromIpv4(0), .max_response_ms = 10'000}));
  // Version 2, about one group, 0.1 s.
  query = IgmpQuery("11010000e1020304");
  EXPECT_EQ(ParseIgmpQuery(query.data(), query.size()),
            (MembershipQuery{.group = Gid::FromIpv4(0xE1020304), .max_response_ms = 100}));
  query[7] ^= 1;
  EXPECT_FALSE(ParseIgmpQuery(query.data(), query.size()));
  // Version 1 leaves the time out.
  query = IgmpQuery("1100000000000000");
  EXPECT_EQ(ParseIgmpQuery(query.data(), query.size())->max_response_ms, 10'000u);
  EXPECT_FALSE(ParseIgmpQuery(query.data(), 7));
  // The largest float: 31 * 2^10 tenths of a second.
  query = IgmpQuery("11ff00000000000002140000");
  EXPECT_EQ(ParseIgmpQuery(query.data(), query.size())->max_response_ms, (31u << 10) * 100);
  query = IgmpQuery("1664000000000000");  // a report
  EXPECT_FALSE(ParseIgmpQuery(query.data(), query.size()));
}

TEST(Ipv4Test, AHeaderWithRouterAlertRoundTrips) {
  Buffer bytes(kIpv4RouterAlertBytes + 4);
  const Ipv4Header header{.header_bytes = kIpv4RouterAlertBytes,
                          .total_length = static_cast<uint16_t>(bytes.size()),
                          .ttl = 1,
                          .protocol = kIpProtocolIgmp,
                          .source = 0x0A000001,
                          .destination = 0xE0000016};
  EmitIpv4RouterAlert(header, bytes.data());
  EXPECT_EQ(ParseIpv4(bytes.data(), bytes.size()), header);
  EXPECT_EQ(LoadBe32(&bytes[20]), 0x94040000u);
}

TEST(MldTest, AReportHasTheExpectedBytes) {
  Buffer bytes(kIpv6Bytes + kMldv2ReportBytes);
  EmitIpv6({.destination = kMldv2Routers}, bytes.data());
  EmitMldReport(GroupRecord::kLeave, kIpv6Group, bytes.data(), &bytes[kIpv6Bytes]);
  EXPECT_TRUE(Icmpv6ChecksumIsValid(bytes.data(), &bytes[kIpv6Bytes], kMldv2ReportBytes));
  bytes.erase(bytes.begin(), bytes.begin() + kIpv6Bytes);
  bytes[2] = bytes[3] = 0;
  EXPECT_EQ(bytes, FromHex("8f0000000000000103000000ff0e0000000000000000000000001234"));
}

TEST(MldTest, QueriesOfBothVersionsParse) {
  // Version 1: 24 bytes.
  Buffer query = FromHex("820000000010000000000000000000000000000000000000");
  EXPECT_EQ(ParseMldQuery(query.data(), query.size()),
            (MembershipQuery{.group = {}, .max_response_ms = 16}));
  EXPECT_FALSE(ParseMldQuery(query.data(), 23));
  // Version 2 about a group; the largest float.
  query = FromHex("82000000ffff0000ff0e000000000000000000000000123402140000");
  EXPECT_EQ(ParseMldQuery(query.data(), query.size()),
            (MembershipQuery{.group = kIpv6Group, .max_response_ms = 0x1FFFu << 10}));
  query[1] = 1;
  EXPECT_FALSE(ParseMldQuery(query.data(), query.size()));
  query = FromHex("8f0000000010000000000000000000000000000000000000");
  EXPECT_FALSE(ParseMldQuery(query.data(), query.size()));
}

}  // namespace
}  // namespace pollux::wire
