// The checker fails what it must fail.
#include "tests/conformance/checker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "stack/wire/ethernet.h"
#include "stack/wire/icrc.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/roce_packet.h"
#include "tests/conformance/reference_icrc.h"
#include "tests/conformance/report.h"

namespace pollux::conformance {
namespace {

using Frame = std::vector<uint8_t>;

struct Vector {
  Frame icrc;
  Frame frame;
};

Frame FromHex(const std::string& hex) {
  Frame bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

const std::map<std::string, Vector>& Vectors() {
  static const auto& vectors = *[] {
    auto* all = new std::map<std::string, Vector>;
    std::ifstream in("tests/conformance/captures/icrc-vectors.txt");
    for (std::string line; std::getline(in, line);) {
      if (line.empty() || line[0] == '#') continue;
      std::istringstream words(line);
      std::string name, icrc, frame;
      words >> name >> icrc >> frame;
      (*all)[name] = {FromHex(icrc), FromHex(frame)};
    }
    return all;
  }();
  return vectors;
}

wire::RocePacket ParseOk(const Frame& frame) {
  wire::RocePacket packet;
  EXPECT_EQ(wire::ParseRocePacket(frame.data(), frame.size(), &packet), wire::ParseResult::kOk);
  return packet;
}

// As a sender that means these bytes would have it.
void FixIcrc(Frame* frame) {
  const wire::RocePacket packet = ParseOk(*frame);
  wire::EmitIcrc(wire::ComputeIcrc(packet), frame->data() + packet.icrc_offset);
}

TEST(VectorsTest, AllVectorsMatchBothIcrcImplementations) {
  ASSERT_EQ(Vectors().size(), 47u);
  for (const auto& [name, vector] : Vectors()) {
    SCOPED_TRACE(name);
    EXPECT_TRUE(std::equal(vector.icrc.begin(), vector.icrc.end(), vector.frame.end() - 4));
    EXPECT_TRUE(ReferenceIcrcIsValid(vector.frame));
    if (!name.starts_with("rocev1")) {
      EXPECT_TRUE(wire::IcrcIsValid(ParseOk(vector.frame)));
    }
    Checker checker;
    EXPECT_EQ(checker.Check(vector.frame), "");
    EXPECT_EQ(checker.counts().roce + checker.counts().rocev1, 1u);
  }
}

TEST(VectorsTest, RpcHeadersReencode) {
  Checker checker;
  for (const auto& [name, vector] : Vectors()) {
    if (!name.starts_with("rpcrdma")) continue;
    const wire::RocePacket packet = ParseOk(vector.frame);
    EXPECT_EQ(checker.CheckRpcHeader({packet.payload(), packet.payload_length}), "") << name;
  }
  EXPECT_EQ(checker.counts().rpcs, (std::map<uint32_t, uint64_t>{{0, 2}, {1, 1}, {4, 2}}));
}

TEST(CheckerTest, OnlyFlippedBitsMaskedByTheIcrcPass) {
  const Frame& good = Vectors().at("rc_write_only_imm").frame;
  for (size_t byte = 14; byte < good.size(); ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      Frame bad = good;
      bad[byte] ^= static_cast<uint8_t>(1 << bit);
      Checker checker;
      const std::string failure = checker.Check(bad);
      const bool congestion_bits = byte == 42 + 4 && bit >= 6;  // FECN, BECN
      const bool other_protocol = failure.empty() && checker.counts().roce == 0;
      EXPECT_TRUE(!failure.empty() || congestion_bits || other_protocol)
          << "byte " << byte << " bit " << bit;
      EXPECT_EQ(checker.counts().failed, failure.empty() ? 0u : 1u);
    }
  }
}

TEST(CheckerTest, AWrongIcrcIsReported) {
  Frame bad = Vectors().at("rc_ack").frame;
  bad.back() ^= 1;
  EXPECT_NE(Checker().Check(bad).find("wrong ICRC"), std::string::npos);
}

TEST(CheckerTest, RoceV1IcrcIsVerified) {
  Frame bad = Vectors().at("rocev1_rc_ack").frame;
  bad[60] ^= 1;
  EXPECT_NE(Checker().Check(bad).find("RoCEv1"), std::string::npos);
}

// What re-encoding alone can see: bits that no field holds, under a correct ICRC.
TEST(CheckerTest, UndecodedBitsAreReported) {
  Frame bad = Vectors().at("rc_send_only_v4_len1").frame;
  wire::RocePacket packet = ParseOk(bad);
  bad[packet.bth_offset + 8] |= 1;
  FixIcrc(&bad);
  EXPECT_NE(Checker().Check(bad).find("BTH byte 8"), std::string::npos);

  bad = Vectors().at("rc_send_only_v4_len1").frame;
  bad[packet.icrc_offset - 1u] = 7;
  FixIcrc(&bad);
  EXPECT_NE(Checker().Check(bad).find("pad byte 2"), std::string::npos);
}

TEST(CheckerTest, ATruncatedMadFails) {
  const Frame good = Vectors().at("cm_rtu").frame;
  const wire::RocePacket packet = ParseOk(good);
  Frame bad(good.begin(), good.end() - 4);
  // The IP checksum is masked in the ICRC but not ignored: change both lengths, and mend it.
  const uint16_t total = static_cast<uint16_t>((bad[16] << 8 | bad[17]) - 4);
  bad[16] = static_cast<uint8_t>(total >> 8);
  bad[17] = static_cast<uint8_t>(total);
  const uint16_t udp = static_cast<uint16_t>((bad[38] << 8 | bad[39]) - 4);
  bad[38] = static_cast<uint8_t>(udp >> 8);
  bad[39] = static_cast<uint8_t>(udp);
  wire::UpdateIpv4Checksum(&bad[14]);
  FixIcrc(&bad);
  EXPECT_EQ(packet.payload_length, 256);
  EXPECT_NE(Checker().Check(bad).find("252 bytes, not 256"), std::string::npos);
}

TEST(CheckerTest, AMadOfAnUnknownAttributeFails) {
  Frame bad = Vectors().at("cm_rtu").frame;
  bad[ParseOk(bad).payload_offset + 17u] = 0x7F;
  FixIcrc(&bad);
  EXPECT_NE(Checker().Check(bad).find("0x007f"), std::string::npos);
}

TEST(CheckerTest, ATruncatedRpcHeaderFails) {
  const Frame& frame = Vectors().at("rpcrdma_call_read_and_write_chunk").frame;
  const wire::RocePacket packet = ParseOk(frame);
  Checker checker;
  EXPECT_NE(checker.CheckRpcHeader({packet.payload(), 40}), "");
}

TEST(CheckerTest, ForeignFramesAreOnlyCounted) {
  Checker checker;
  EXPECT_EQ(checker.Check(Frame(60, 0)), "");
  EXPECT_EQ(checker.counts().frames, 1u);
  EXPECT_EQ(checker.counts().roce, 0u);
}

TEST(ReportTest, AFileThatIsNotACaptureFails) {
  const FileReport report = CheckFile("tests/conformance/captures/expected.txt");
  EXPECT_FALSE(report.ok());
  EXPECT_NE(ToTable({report}).find("FAILED tests/conformance/captures/expected.txt"),
            std::string::npos);
  EXPECT_NE(ToJson(std::vector<FileReport>{report}).find("\"ok\": false"), std::string::npos);
}

// A classic pcap of one frame.
std::string Capture(uint32_t link_type, const Frame& frame) {
  const auto length = static_cast<uint32_t>(frame.size());
  const uint32_t header[] = {0xA1B2C3D4, 4u << 16 | 2u, 0,     0, 65535, link_type, 0,
                             0,          length,        length};
  const std::string path = testing::TempDir() + "one.pcap";
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(header), sizeof header);
  out.write(reinterpret_cast<const char*>(frame.data()), length);
  return path;
}

TEST(ReportTest, CapturesWithoutAnEthernetHeaderAreChecked) {
  constexpr uint32_t kRaw = 101, kLinuxSll = 113, kLinuxSll2 = 276;
  const std::pair<uint32_t, Frame> kHeaders[] = {
      {kRaw, {}},
      {kLinuxSll, {0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 9, 0, 0, 8, 0}},
      {kLinuxSll2, {8, 0, 0, 0, 0, 0, 0, 7, 0, 1, 0, 6, 2, 0, 0, 0, 0, 9, 0, 0}}};
  const Frame& ack = Vectors().at("rc_ack").frame;
  for (const auto& [link_type, header] : kHeaders) {
    Frame frame = header;
    frame.insert(frame.end(), ack.begin() + wire::kEthernetBytes, ack.end());
    const FileReport good = CheckFile(Capture(link_type, frame));
    EXPECT_TRUE(good.ok()) << link_type;
    EXPECT_EQ(good.counts.roce, 1u) << link_type;
    frame.back() ^= 1;
    EXPECT_FALSE(CheckFile(Capture(link_type, frame)).ok()) << link_type;
  }
}

TEST(ReportTest, JsonQuotesPaths) {
  FileReport report;
  report.path = "a\"b\\c\n";
  EXPECT_NE(ToJson(std::vector<FileReport>{report}).find(R"("a\"b\\c\u000a")"), std::string::npos);
}

}  // namespace
}  // namespace pollux::conformance
