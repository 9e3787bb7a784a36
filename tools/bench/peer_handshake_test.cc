#include "tools/bench/peer_handshake.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace pollux::tools {
namespace {

TEST(PeerHandshakeTest, EncodedHandshakeParses) {
  const PeerHandshake sent = {.address = 0x0102030405060708, .length = 1u << 20, .key = 0xCAFEBABE};
  // REP has more room than is used.
  std::vector<uint8_t> data(196);
  const auto bytes = sent.Encode();
  std::copy(bytes.begin(), bytes.end(), data.begin());
  const auto got = PeerHandshake::Parse(data);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->address, sent.address);
  EXPECT_EQ(got->length, sent.length);
  EXPECT_EQ(got->key, sent.key);
}

TEST(PeerHandshakeTest, ErrorsNameForeignDataAndOtherVersions) {
  auto bytes = PeerHandshake().Encode();
  EXPECT_FALSE(
      PeerHandshake::Parse(absl::MakeConstSpan(bytes).first(PeerHandshake::kBytes - 1)).ok());
  EXPECT_FALSE(PeerHandshake::Parse({}).ok());
  bytes[7] = 9;
  EXPECT_NE(PeerHandshake::Parse(bytes).status().message().find("version 9"),
            absl::string_view::npos);
  bytes[0] = 'q';
  EXPECT_NE(PeerHandshake::Parse(bytes).status().message().find("--verbs-port"),
            absl::string_view::npos);
}

}  // namespace
}  // namespace pollux::tools
