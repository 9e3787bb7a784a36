#include "tools/decode/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "stack/base/byte_order.h"
#include "stack/wire/checksum.h"
#include "stack/wire/icrc.h"
#include "stack/wire/ipv4.h"
#include "tools/decode/capture_reader.h"
#include "tools/decode/text.h"

namespace pollux::decode {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

constexpr char kCaptures[] = "tests/conformance/captures/";

using Frame = std::vector<uint8_t>;

const std::map<std::string, Frame>& Vectors() {
  static const auto& vectors = *[] {
    auto* all = new std::map<std::string, Frame>;
    std::ifstream in(std::string(kCaptures) + "icrc-vectors.txt");
    for (std::string line; std::getline(in, line);) {
      if (line.empty() || line[0] == '#') continue;
      std::istringstream words(line);
      std::string name, icrc, hex;
      words >> name >> icrc >> hex;
      for (size_t i = 0; i + 1 < hex.size(); i += 2) {
        (*all)[name].push_back(static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
      }
    }
    return all;
  }();
  return vectors;
}

DecodedFrame Decode(const Frame& frame, bool rpcrdma = false) {
  return Decoder({.rpcrdma = rpcrdma}).Decode(frame, frame.size());
}
DecodedFrame Decode(const std::string& vector) {
  return Decode(Vectors().at(vector), vector.starts_with("rpcrdma"));
}

TEST(DecoderTest, EveryVectorDecodesWithoutProblem) {
  ASSERT_EQ(Vectors().size(), 47u);
  for (const auto& [name, frame] : Vectors()) {
    const DecodedFrame decoded = Decode(name);
    EXPECT_EQ(decoded.problem, "") << name;
    EXPECT_TRUE(decoded.roce) << name;
    EXPECT_EQ(decoded.fields["icrc"]["valid"], true) << name;
    EXPECT_TRUE(Json::accept(ToJsonLine({}, decoded))) << name;
  }
}

TEST(DecoderTest, SummariesContainTheMainFields) {
  const std::pair<const char*, const char*> kCases[] = {
      {"rc_send_only_v4_len5", "RC SEND Only QPN 0x000012 PSN 0x000105 ack-req 5 bytes"},
      {"rc_send_only_imm", " immediate 0x"},
      {"rc_send_only_inv", " invalidate 0x"},
      {"rc_write_first_pmtu256", " address 0x"},
      {"rc_read_request", " length "},
      {"rc_ack", " ACK MSN "},
      {"rc_nak_psn", " NAK PSN sequence error MSN "},
      {"rc_rnr_nak_0.01ms", " RNR NAK 10 us MSN "},
      {"rc_cmp_swap", " rkey 0x"},
      {"rc_atomic_ack", " original 0x"},
      {"ud_send_only", " from QPN 0x"},
      {"cnp", " BECN"},
      {"cm_req_tcp_20049_rfc8797", "CM REQ service 0x0000000001064e51 (port 20049), QPN 0x"},
      {"cm_rep_rfc8797", "CM REP QPN 0x"},
      {"cm_rtu", "CM RTU"},
      {"cm_rej_invalid_service_id", "CM REJ reason 8 (invalid service ID)"},
      {"cm_dreq", "CM DREQ of QPN 0x"},
      {"cm_drep", "CM DREP"},
      {"cm_mra_for_req", "CM MRA of REQ, service timeout 24"},
      {"cm_sidr_req_udp_5000", "CM SIDR_REQ service 0x0000000001111388 (port 5000)"},
      {"cm_sidr_rep_ok", "CM SIDR_REP status 0 (valid), QPN 0x"},
      {"cm_lap", "CM LAP"},
      {"cm_apr_unsupported", "CM APR status 2 (unsupported)"},
      {"rpcrdma_call_read_and_write_chunk", "RDMA_MSG XID 0x"},
      {"rpcrdma_nomsg_pzrc_reply_chunk", "RDMA_NOMSG XID 0x"},
      {"rpcrdma_err_vers", "RDMA_ERROR XID 0x"},
      {"rpcrdma_err_vers", "ERR_VERS 1 to 1"},
      {"rpcrdma_err_chunk", "ERR_CHUNK"},
      {"connectx4lx_cnp", "QPN 0x000118"},
      {"rocev1_rdma_write_only", "RoCEv1 RC RDMA WRITE Only QPN 0x00010a"},
      {"rocev1_rc_ack", "RoCEv1 RC Acknowledge QPN 0x000109"},
  };
  for (const auto& [name, words] : kCases) {
    EXPECT_THAT(Decode(name).summary, HasSubstr(words)) << name;
  }
}

TEST(DecoderTest, FieldsOfAConnectionRequestAreDecoded) {
  const Json cm = Decode("cm_req_tcp_20049_rfc8797").fields["cm"];
  EXPECT_EQ(cm["message"], "REQ");
  EXPECT_EQ(cm["port_space"], "RDMA_PS_TCP");
  EXPECT_EQ(cm["port"], 20049);
  EXPECT_EQ(cm["transport"], "RC");
  EXPECT_TRUE(cm["cma"].contains("source_port"));
  EXPECT_EQ(cm["cma"]["destination"], Decode("cm_req_tcp_20049_rfc8797").destination);
  EXPECT_EQ(cm["rfc8797"]["send_bytes"], 4096);
  EXPECT_TRUE(cm["primary"].contains("remote_gid"));
  EXPECT_FALSE(cm.contains("alternate"));
}

TEST(DecoderTest, ChunkListsAreDecoded) {
  const Json both = Decode("rpcrdma_call_read_and_write_chunk").fields["rpcrdma"];
  EXPECT_EQ(both["procedure"], "RDMA_MSG");
  ASSERT_EQ(both["read_list"].size(), 1u);
  EXPECT_TRUE(both["read_list"][0].contains("position"));
  ASSERT_EQ(both["write_list"].size(), 1u);
  EXPECT_TRUE(both["write_list"][0][0].contains("handle"));
  EXPECT_TRUE(both["reply_chunk"].is_null());
  const Json long_call = Decode("rpcrdma_nomsg_pzrc_reply_chunk").fields["rpcrdma"];
  EXPECT_EQ(long_call["read_list"][0]["position"], 0);
  EXPECT_EQ(long_call["reply_chunk"].size(), 1u);
}

TEST(DecoderTest, VlanTagsAndIpv6AreDecoded) {
  const DecodedFrame tagged = Decode("rc_send_only_vlan_len4");
  EXPECT_TRUE(tagged.fields["eth"].contains("vlan"));
  EXPECT_EQ(tagged.source, "192.0.2.1");
  EXPECT_THAT(Decode("rc_send_only_v6_len5").source, HasSubstr(":"));
}

TEST(DecoderTest, RpcRdmaIsDecodedOnConnectionsOfItsPorts) {
  auto reader = CaptureReader::Open(std::string(kCaptures) + "nfs_v3.pcap.gz");
  ASSERT_TRUE(reader.ok()) << reader.status();
  Decoder decoder({});
  std::map<std::string, int> procedures;
  while (true) {
    const auto next = reader->Next();
    ASSERT_TRUE(next.ok()) << next.status();
    if (!next->has_value()) break;
    const DecodedFrame decoded = decoder.Decode((*next)->bytes, (*next)->original_bytes);
    EXPECT_EQ(decoded.problem, "") << (*next)->number;
    if (decoded.fields.contains("rpcrdma")) {
      ++procedures[decoded.fields["rpcrdma"]["procedure"].get<std::string>()];
    }
  }
  EXPECT_GT(procedures["RDMA_MSG"], 0);
  EXPECT_FALSE(Decode(Vectors().at("rpcrdma_msg_empty_lists")).fields.contains("rpcrdma"));
}

TEST(DecoderTest, DamageIsReported) {
  Frame bad = Vectors().at("rc_ack");
  bad.back() ^= 1;
  EXPECT_THAT(Decode(bad).problem, HasSubstr("wrong ICRC"));
  bad = Vectors().at("rocev1_rc_ack");
  bad[60] ^= 1;
  EXPECT_THAT(Decode(bad).problem, HasSubstr("wrong ICRC"));
  bad = Vectors().at("rc_ack");
  bad[42] = 0x1F;
  EXPECT_THAT(Decode(bad).problem, HasSubstr("unknown opcode"));
  EXPECT_THAT(Decode(bad).summary, HasSubstr("opcode 0x1f QPN 0x"));
  bad = Vectors().at("rpcrdma_call_read_and_write_chunk");
  bad[54 + 4] ^= 0xFF;  // the version
  EXPECT_THAT(Decode(bad, true).fields["rpcrdma"].dump(), HasSubstr("RDMA_MSG"));
  EXPECT_NE(Decode(bad, true).problem, "");
}

// The first `length` bytes, as a capture with that snap length has them.
DecodedFrame DecodeCut(const std::string& vector, size_t length) {
  const Frame& whole = Vectors().at(vector);
  // Of its own size, for the sanitizers to see what is read past it.
  const Frame cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length));
  return Decoder({.rpcrdma = vector.starts_with("rpcrdma")}).Decode(cut, whole.size());
}

TEST(DecoderTest, EveryTruncationIsReportedAndNotAFailure) {
  for (const auto& [name, whole] : Vectors()) {
    for (size_t length = 0; length < whole.size(); ++length) {
      const DecodedFrame decoded = DecodeCut(name, length);
      EXPECT_EQ(decoded.problem, "") << name << " cut to " << length;
      const std::string text = absl::StrCat("cut to ", length, " of ", whole.size(), " bytes");
      if (decoded.fields.contains("icrc")) {
        EXPECT_EQ(decoded.cut, "") << name;  // what is cut is padding
        EXPECT_EQ(decoded.fields["icrc"]["valid"], true) << name;
      } else {
        EXPECT_EQ(decoded.cut, decoded.roce ? "ICRC not checked: " + text : text) << name;
      }
    }
  }
}

TEST(DecoderTest, CompleteHeadersOfATruncatedFrameAreShown) {
  const char* const name = "rc_write_first_pmtu256";
  const DecodedFrame whole = Decode(name);
  const std::pair<const char*, size_t> kEnds[] = {
      {"eth", 14}, {"ip", 34}, {"udp", 42}, {"bth", 54}, {"reth", 70}};
  for (const auto& [header, end] : kEnds) {
    EXPECT_FALSE(DecodeCut(name, end - 1).fields.contains(header)) << header;
    EXPECT_EQ(DecodeCut(name, end).fields[header], whole.fields[header]) << header;
  }
  EXPECT_EQ(DecodeCut(name, 70).summary, whole.summary);
  EXPECT_FALSE(DecodeCut(name, 37).roce);  // before the last byte of the UDP port
  EXPECT_TRUE(DecodeCut(name, 38).roce);
  EXPECT_THAT(DecodeCut("rpcrdma_call_read_and_write_chunk", 90).summary,
              HasSubstr("RDMA_MSG XID"));
  EXPECT_THAT(DecodeCut("cm_drep", 14 + 20 + 8 + 12 + 8 + 24).summary, HasSubstr("  CM DREP"));
  EXPECT_TRUE(DecodeCut("rocev1_rc_ack", 14 + 40 + 12).fields.contains("bth"));
}

// A FLUSH in the place of a WRITE: the captures have none.
TEST(DecoderTest, AFlushIsShownWithItsPlacement) {
  Frame frame = Vectors().at("rc_write_first_pmtu256");
  frame[42] = static_cast<uint8_t>(wire::Opcode::kRcFlush);
  const uint8_t feth[] = {0, 0, 0, wire::kFlushRegion << 4 | wire::kFlushGlobal};
  std::copy(std::begin(feth), std::end(feth), &frame[54]);
  frame.resize(54 + wire::kFethBytes + wire::kRethBytes);
  const DecodedFrame decoded = Decoder({}).Decode(frame, 1000);
  EXPECT_THAT(decoded.summary, HasSubstr("RC FLUSH"));
  EXPECT_THAT(decoded.summary, HasSubstr(" global region address 0x"));
  EXPECT_EQ(decoded.fields["feth"]["placement"], 1);
  EXPECT_EQ(decoded.fields["feth"]["selectivity"], 1);
  EXPECT_TRUE(decoded.fields.contains("reth"));
}

TEST(DecoderTest, TruncationIsShownInLinesAndJson) {
  const DecodedFrame decoded = DecodeCut("rc_write_first_pmtu256", 60);
  EXPECT_THAT(ToLine({}, decoded), HasSubstr("  (ICRC not checked: cut to 60 of "));
  const Json json = Json::parse(ToJsonLine({}, decoded));
  EXPECT_EQ(json["ok"], true);
  EXPECT_EQ(json["cut"], decoded.cut);
}

TEST(DecoderTest, AFrameShorterThanItsLengthFieldsIsAPartlyDecodedFailure) {
  Frame bad = Vectors().at("rc_write_first_pmtu256");
  bad.resize(80);
  const DecodedFrame decoded = Decode(bad);
  EXPECT_THAT(decoded.problem, HasSubstr("truncated"));
  EXPECT_TRUE(decoded.fields.contains("ip"));
  EXPECT_TRUE(decoded.fields.contains("reth"));
  EXPECT_EQ(decoded.cut, "");
}

TEST(DecoderTest, TruncatedForeignFramesAreNamedByTheirNextHeader) {
  Frame icmp6 = Vectors().at("rc_send_only_v6_len5");
  icmp6[20] = 58;
  icmp6.resize(34);
  const DecodedFrame decoded = Decoder({}).Decode(icmp6, 1000);
  EXPECT_EQ(decoded.summary, "ICMPv6");
  EXPECT_FALSE(decoded.roce);
  EXPECT_EQ(decoded.problem, "");
  EXPECT_EQ(decoded.cut, "");
}

// `bytes` at `at`.
Frame Inserted(const std::string& vector, size_t at, const Frame& bytes) {
  Frame frame = Vectors().at(vector);
  frame.insert(frame.begin() + static_cast<ptrdiff_t>(at), bytes.begin(), bytes.end());
  return frame;
}

TEST(DecoderTest, StackedVlanTagsAreDecoded) {
  const DecodedFrame decoded = Decode(
      Inserted("rc_send_only_v4_len5", 12, {0x88, 0xA8, 0, 5, 0x81, 0, 0, 6, 0x81, 0, 0, 7}));
  EXPECT_EQ(decoded.problem, "");
  EXPECT_EQ(decoded.summary, Decode("rc_send_only_v4_len5").summary);
  EXPECT_EQ(decoded.fields["eth"]["tags"].size(), 3u);
  EXPECT_EQ(decoded.fields["icrc"]["valid"], true);
}

TEST(DecoderTest, OtherLinkTypesAreDecoded) {
  const Frame& whole = Vectors().at("rc_send_only_v4_len5");
  const Frame ip(whole.begin() + 14, whole.end());
  Frame sll = {0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 9, 0, 0, 0x08, 0};
  Frame sll2 = {0x08, 0, 0, 0, 0, 0, 0, 7, 0, 1, 0, 6, 2, 0, 0, 0, 0, 9, 0, 0};
  for (Frame* const frame : {&sll, &sll2}) frame->insert(frame->end(), ip.begin(), ip.end());
  const std::pair<LinkType, const Frame*> kCases[] = {
      {LinkType::kIp, &ip}, {LinkType::kLinuxCooked, &sll}, {LinkType::kLinuxCooked2, &sll2}};
  for (const auto& [link, frame] : kCases) {
    const DecodedFrame decoded = Decoder({.link = link}).Decode(*frame, frame->size());
    EXPECT_EQ(decoded.problem, "");
    EXPECT_EQ(decoded.summary, Decode("rc_send_only_v4_len5").summary);
    EXPECT_EQ(decoded.fields["icrc"]["valid"], true);
  }
  EXPECT_EQ(Decoder({.link = LinkType::kIp}).Decode(Frame{0x10}, 1).summary, "no IP packet");
}

// With the checksum that its IPv4 header needs.
void FixIpv4(Frame* frame) {
  uint8_t* const header = frame->data() + 14;
  const size_t bytes = size_t{4} * (header[0] & 0x0F);
  StoreBe16(header + wire::ipv4::kChecksum, 0);
  StoreBe16(header + wire::ipv4::kChecksum, wire::InternetChecksum(header, bytes));
}

TEST(DecoderTest, Ipv4OptionsAreSkippedAndNamed) {
  Frame frame = Inserted("rc_send_only_v4_len5", 34, {1, 1, 1, 0});
  frame[14] = 0x46;
  frame[17] += 4;
  FixIpv4(&frame);
  DecodedFrame decoded = Decode(frame);
  EXPECT_EQ(decoded.summary, Decode("rc_send_only_v4_len5").summary);
  EXPECT_EQ(decoded.problem, "");
  EXPECT_EQ(decoded.unchecked, "ICRC not checked: after IPv4 options");
  EXPECT_THAT(ToLine({}, decoded), HasSubstr("  (ICRC not checked: after IPv4 options)\n"));
  EXPECT_EQ(decoded.fields["ip"]["options_bytes"], 4);
  frame[22] ^= 1;  // the TTL
  decoded = Decode(frame);
  EXPECT_THAT(decoded.problem, HasSubstr("wrong IPv4 header checksum"));
  EXPECT_TRUE(decoded.fields.contains("bth"));
}

TEST(DecoderTest, Ipv6ExtensionHeadersAreSkippedAndNamed) {
  const std::pair<uint8_t, const char*> kExtensions[] = {
      {0, "hop-by-hop"}, {43, "routing"}, {60, "destination options"}};
  for (const auto& [next_header, name] : kExtensions) {
    Frame frame = Inserted("rc_send_only_v6_len5", 54, {17, 0, 1, 4, 0, 0, 0, 0});
    frame[20] = next_header;
    frame[19] += 8;
    const DecodedFrame decoded = Decode(frame);
    EXPECT_EQ(decoded.summary, Decode("rc_send_only_v6_len5").summary);
    EXPECT_EQ(decoded.problem, "");
    EXPECT_THAT(decoded.unchecked, HasSubstr(name));
    EXPECT_TRUE(decoded.roce);
  }
}

TEST(DecoderTest, FragmentsAreNamed) {
  Frame frame = Vectors().at("rc_send_only_v4_len5");
  frame[20] = 0x20;
  FixIpv4(&frame);
  DecodedFrame decoded = Decode(frame);
  EXPECT_THAT(decoded.problem, HasSubstr("first fragment"));
  EXPECT_TRUE(decoded.fields.contains("bth"));
  frame[21] = 2;
  FixIpv4(&frame);
  decoded = Decode(frame);
  EXPECT_EQ(decoded.summary, "UDP fragment at byte 16");
  EXPECT_FALSE(decoded.roce);
  frame = Inserted("rc_send_only_v6_len5", 54, {17, 0, 0, 1, 0, 0, 0, 9});
  frame[20] = 44;
  frame[19] += 8;
  EXPECT_THAT(Decode(frame).problem, HasSubstr("first fragment"));
}

TEST(DecoderTest, ForeignFramesAreNamedAndPass) {
  Frame arp(60, 0);
  arp[12] = 0x08;
  arp[13] = 0x06;
  EXPECT_EQ(Decode(arp).summary, "ARP");
  EXPECT_EQ(Decode(arp).problem, "");
  EXPECT_FALSE(Decode(arp).roce);
  EXPECT_THAT(Decode(Frame(3, 0)).summary, HasSubstr("too short"));
}

TEST(TextTest, LineDetailsAndJsonShowTheFrame) {
  const DecodedFrame decoded = Decode("rc_ack");
  EXPECT_THAT(ToLine({.number = 3, .ns = 0, .since_first = 1'000'000'002}, decoded),
              HasSubstr("     3     1.000000002  192.0.2."));
  EXPECT_THAT(ToDetails(decoded), HasSubstr("        aeth: syndrome 0x"));
  const std::string chunks = ToDetails(Decode("rpcrdma_call_read_and_write_chunk"));
  EXPECT_THAT(chunks, HasSubstr("          read_list:\n            0: position "));
  EXPECT_THAT(chunks, HasSubstr("reply_chunk none"));
  DecodedFrame failed = decoded;
  failed.problem = "why";
  EXPECT_THAT(ToLine({}, failed), HasSubstr("  !! why\n"));
  const Json json = Json::parse(ToJsonLine({.number = 3, .ns = 5}, failed));
  EXPECT_EQ(json["frame"], 3);
  EXPECT_EQ(json["time_ns"], 5);
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["problem"], "why");
}

}  // namespace
}  // namespace pollux::decode
