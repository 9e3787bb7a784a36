#include "tools/file_service/cm_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cm/wire/mad.h"

namespace pollux::tools {
namespace {

using ::testing::HasSubstr;

std::string Describe(bool outgoing, const cm::Message& message) {
  cm::MadBuffer buffer;
  cm::EmitMad({}, message, buffer);
  return DescribeMad(outgoing, buffer);
}

TEST(CmTraceTest, ReqIsDescribedWithItsPrivateData) {
  cm::Req req;
  req.service_id = 0x0000000001064E51;
  req.local_qpn = 0x12AB;
  req.path_mtu = 5;
  const uint8_t kLinux[] = {0xF6, 0xAB, 0x0E, 0x18, 1, 1, 3, 3};
  std::copy(std::begin(kLinux), std::end(kLinux), req.private_data.begin() + 36);
  const std::string text = Describe(true, req);
  EXPECT_THAT(text, HasSubstr("-> REQ"));
  EXPECT_THAT(text, HasSubstr("(port 20049), QPN 0x0012ab"));
  EXPECT_THAT(text, HasSubstr("path MTU 4096"));
  EXPECT_THAT(text, HasSubstr("sends up to 4096, receives up to 4096 bytes, remote invalidation "
                              "yes"));
}

TEST(CmTraceTest, RepWithoutPrivateDataAndOtherMessagesAreDescribed) {
  EXPECT_THAT(Describe(false, cm::Rep{}), HasSubstr("no RFC 8797 private data"));
  cm::Rej rej;
  rej.reason = 28;
  EXPECT_EQ(Describe(false, rej), "  <- REJ reason 28 (rejected by the consumer)\n");
  EXPECT_EQ(Describe(true, cm::Rtu{}), "  -> RTU\n");
  const uint8_t kShort[3] = {};
  EXPECT_THAT(DescribeMad(false, kShort), HasSubstr("3 bytes that are not a CM MAD"));
}

}  // namespace
}  // namespace pollux::tools
