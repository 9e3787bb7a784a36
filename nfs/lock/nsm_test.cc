#include "nfs/lock/nsm.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pollux::nfs {
namespace {

TEST(NsmTest, DecodesANotifyCall) {
  const std::string bytes("\0\0\0\5guest\0\0\0\0\0\0\5", 16);
  const std::vector<uint8_t> wire(bytes.begin(), bytes.end());
  StatChge change;
  ASSERT_TRUE(oncrpc::Decode(oncrpc::XdrReader(wire), &change));
  EXPECT_EQ(change.mon_name.text, "guest");
  EXPECT_EQ(change.state, 5u);
  std::vector<uint8_t> again(wire.size());
  ASSERT_TRUE(oncrpc::Encode(change, absl::MakeSpan(again)).ok);
  EXPECT_EQ(again, wire);
}

TEST(NsmTest, NamesAreBounded) {
  std::vector<uint8_t> space(2 * kSmMaxstrlen);
  const std::string most(kSmMaxstrlen, 'n'), more(kSmMaxstrlen + 1, 'n');
  EXPECT_TRUE(oncrpc::Encode(StatChge{.mon_name = {most}}, absl::MakeSpan(space)).ok);
  EXPECT_FALSE(oncrpc::Encode(StatChge{.mon_name = {more}}, absl::MakeSpan(space)).ok);
}

}  // namespace
}  // namespace pollux::nfs
