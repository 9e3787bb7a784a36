#include "nfs/lock/nlm.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pollux::nfs {
namespace {

// LOCK of Linux's client, as it stands on the wire: blocking, exclusive, the whole file.
TEST(NlmTest, DecodesALockCallOfLinux) {
  const std::string bytes(
      "\0\0\0\4\x12\x34\x56\x78"          // cookie
      "\0\0\0\1\0\0\0\1"                  // block, exclusive
      "\0\0\0\5guest\0\0\0\0\0\0\4hand"   // caller_name, fh
      "\0\0\0\7\x37@guest\0\0\0\0\7"      // oh, svid
      "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"  // l_offset, l_len
      "\0\0\0\0\0\0\0\3",                 // reclaim, state
      76);
  const std::vector<uint8_t> wire(bytes.begin(), bytes.end());
  Nlm4Lockargs args;
  ASSERT_TRUE(oncrpc::Decode(oncrpc::XdrReader(wire), &args));
  EXPECT_EQ(args.cookie.text, "\x12\x34\x56\x78");
  EXPECT_TRUE(args.block && args.exclusive);
  EXPECT_FALSE(args.reclaim);
  EXPECT_EQ(args.alock.caller_name.text, "guest");
  EXPECT_EQ(args.alock.fh.text, "hand");
  EXPECT_EQ(args.alock.oh.text, "7@guest");
  EXPECT_EQ(args.alock.svid, 7u);
  EXPECT_EQ(args.state, 3u);
  std::vector<uint8_t> again(wire.size());
  const oncrpc::Encoded encoded = oncrpc::Encode(args, absl::MakeSpan(again));
  ASSERT_TRUE(encoded.ok);
  EXPECT_EQ(again, wire);
}

TEST(NlmTest, OnlyADeniedTestResultHasAHolder) {
  std::vector<uint8_t> space(256);
  for (const auto& [stat, bytes] :
       {std::pair(Nlm4Stats::kGranted, 8u), {Nlm4Stats::kDenied, 36u}}) {
    const oncrpc::Encoded encoded =
        oncrpc::Encode(Nlm4Testres{.stat = stat}, absl::MakeSpan(space));
    EXPECT_EQ(encoded.stream.size(), bytes);
    Nlm4Testres again;
    ASSERT_TRUE(oncrpc::Decode(oncrpc::XdrReader(encoded.stream), &again));
    EXPECT_EQ(again.stat, stat);
  }
  EXPECT_FALSE(oncrpc::Encode(Nlm4Res{.stat = Nlm4Stats{10}}, absl::MakeSpan(space)).ok);
}

TEST(NlmTest, ObjectsAreBounded) {
  std::vector<uint8_t> space(4096);
  const std::string most(kMaxNetobj, 'o'), more(kMaxNetobj + 1, 'o');
  EXPECT_TRUE(oncrpc::Encode(Nlm4Unlockargs{.cookie = {most}}, absl::MakeSpan(space)).ok);
  EXPECT_FALSE(oncrpc::Encode(Nlm4Unlockargs{.cookie = {more}}, absl::MakeSpan(space)).ok);
}

}  // namespace
}  // namespace pollux::nfs
