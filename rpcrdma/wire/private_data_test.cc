#include "rpcrdma/wire/private_data.h"

#include <gtest/gtest.h>

#include <vector>

namespace pollux::rpcrdma {
namespace {

std::vector<uint8_t> Encoded(const PrivateData& data) {
  const auto encoded = EncodePrivateData(data);
  return {encoded.begin(), encoded.end()};
}

// RFC 8797 section 4
TEST(PrivateData, EncodedBytesMatchRfc8797) {
  EXPECT_EQ(Encoded({.remote_invalidation = true, .send_bytes = 4096, .receive_bytes = 262144}),
            (std::vector<uint8_t>{0xF6, 0xAB, 0x0E, 0x18, 1, 1, 3, 255}));
}

// RFC 8797 section 4.2
TEST(PrivateData, SizesAreClampedAndRoundedDown) {
  const auto encoded = EncodePrivateData({.send_bytes = 1, .receive_bytes = 1u << 30});
  EXPECT_EQ(encoded[6], 0);
  EXPECT_EQ(encoded[7], 255);
  const auto found = FindPrivateData(Encoded({.send_bytes = 5000, .receive_bytes = 1023 + 2048}));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->send_bytes, 4096u);
  EXPECT_EQ(found->receive_bytes, 2048u);
}

// RFC 8797 section 5.2: any alignment.
TEST(PrivateData, PrivateDataIsFoundAtEveryOffset) {
  const PrivateData data{.send_bytes = 8192, .receive_bytes = 16384};
  for (size_t offset = 0; offset <= 48; ++offset) {
    std::vector<uint8_t> field(56, 0xF6);
    const auto bytes = Encoded(data);
    std::copy(bytes.begin(), bytes.end(), field.begin() + static_cast<long>(offset));
    EXPECT_EQ(FindPrivateData(field), data) << offset;
  }
}

TEST(PrivateData, SearchContinuesAfterAnUnknownVersion) {
  std::vector<uint8_t> field = Encoded({.send_bytes = 65536});
  field[4] = 2;  // a version of the future
  const auto real = Encoded({.send_bytes = 2048});
  field.insert(field.end() - 3, real.begin(), real.end());
  ASSERT_TRUE(FindPrivateData(field).has_value());
  EXPECT_EQ(FindPrivateData(field)->send_bytes, 2048u);
}

// RFC 8797 section 5.1 and RFC 8166 section 3.3.3: who says nothing has the defaults.
TEST(PrivateData, WithoutPrivateDataTheThresholdsAre1024) {
  const InlineThresholds thresholds = NegotiateThresholds(PrivateData{}, {.send_bytes = 8192});
  EXPECT_EQ(thresholds.client_to_server, 1024u);
  EXPECT_EQ(thresholds.server_to_client, 1024u);
  EXPECT_FALSE(PrivateData{}.remote_invalidation);
}

TEST(PrivateData, TruncatedOrAbsentPrivateDataIsNotFound) {
  const auto whole = Encoded({});
  for (size_t n = 0; n < whole.size(); ++n) {
    EXPECT_FALSE(FindPrivateData({whole.data(), n}).has_value());
  }
  EXPECT_FALSE(FindPrivateData(std::vector<uint8_t>(196)).has_value());
  EXPECT_FALSE(FindPrivateData({}, 36).has_value());
}

TEST(PrivateData, BytesBeforeTheOffsetAreNotSearched) {
  std::vector<uint8_t> field(92);
  const auto bytes = Encoded({.send_bytes = 4096});
  std::copy(bytes.begin(), bytes.end(), field.begin() + 20);  // inside an address
  EXPECT_FALSE(FindPrivateData(field, 36).has_value());
}

// RFC 8797 section 4: reserved bits are ignored.
TEST(PrivateData, ReservedBitsAreIgnored) {
  auto bytes = Encoded({});
  bytes[5] = 0xFE;
  ASSERT_TRUE(FindPrivateData(bytes).has_value());
  EXPECT_FALSE(FindPrivateData(bytes)->remote_invalidation);
}

// RFC 8797 section 4.2: the smaller of the sender's send and the receiver's receive size.
TEST(PrivateData, ThresholdIsTheSmallerOfSendAndReceiveSize) {
  const auto thresholds = NegotiateThresholds({.send_bytes = 4096, .receive_bytes = 8192},
                                              {.send_bytes = 16384, .receive_bytes = 2048});
  EXPECT_EQ(thresholds.client_to_server, 2048u);
  EXPECT_EQ(thresholds.server_to_client, 8192u);
  EXPECT_EQ(NegotiateThresholds({.send_bytes = 65536}, PrivateData{}).client_to_server, 1024u);
}

}  // namespace
}  // namespace pollux::rpcrdma
