#include "tools/decode/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "stack/wire/icrc.h"
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

TEST(DecoderTest, SummariesSayWhatMatters) {
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

TEST(DecoderTest, FieldsOfConnectionRequest) {
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

TEST(DecoderTest, ChunkLists) {
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

TEST(DecoderTest, VlanAndIpv6) {
  const DecodedFrame tagged = Decode("rc_send_only_vlan_len4");
  EXPECT_TRUE(tagged.fields["eth"].contains("vlan"));
  EXPECT_EQ(tagged.source, "192.0.2.1");
  EXPECT_THAT(Decode("rc_send_only_v6_len5").source, HasSubstr(":"));
}

TEST(DecoderTest, RpcRdmaWhereTheCmExchangeSaysSo) {
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

TEST(DecoderTest, DamageIsNamed) {
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

TEST(DecoderTest, CutFramesAreNamedAndReadNowhereElse) {
  for (const auto& [name, whole] : Vectors()) {
    for (size_t length = 0; length < whole.size(); ++length) {
      const Frame cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length));
      Decoder decoder({.rpcrdma = true});
      const DecodedFrame decoded = decoder.Decode(cut, whole.size());
      if (!decoded.roce) continue;  // too short to tell
      EXPECT_THAT(decoded.problem, HasSubstr("snap length")) << name << " cut to " << length;
    }
  }
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

TEST(TextTest, LineDetailsAndJson) {
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
