#include "nfs/mount/mount.h"

#include <vector>

#include "gtest/gtest.h"
#include "nfs/v3/samples_for_test.h"

namespace pollux::nfs {
namespace {

TEST(MountTest, ExportListRoundTrips) {
  Exports exports;
  exports.items.push_back({.dir = {"/a"}, .groups = {{Groupnode{{"host"}}}}});
  exports.items.push_back({.dir = {"/bc"}, .groups = {}});
  const std::vector<uint8_t> wire = {
      0, 0, 0, 1, 0, 0, 0, 2, '/', 'a', 0,   0,                // an export
      0, 0, 0, 1, 0, 0, 0, 4, 'h', 'o', 's', 't', 0, 0, 0, 0,  // its groups
      0, 0, 0, 1, 0, 0, 0, 3, '/', 'b', 'c', 0,   0, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(Encoding(exports), wire);
  Exports decoded;
  ASSERT_TRUE(oncrpc::Decode(oncrpc::XdrReader(wire), &decoded));
  ASSERT_EQ(decoded.items.size(), 2u);
  EXPECT_EQ(decoded.items[0].groups.items[0].name.text, "host");
  EXPECT_EQ(decoded.items[1].dir.text, "/bc");
}

TEST(MountTest, MountResultRoundTrips) {
  MountRes result;
  result.resok.fhandle = {.bytes = {0xAB}, .size = 1};
  result.resok.auth_flavors.items = {1, 390003};
  const std::vector<uint8_t> wire = {0, 0, 0, 0, 0, 0, 0, 1, 0xAB, 0, 0,    0,
                                     0, 0, 0, 2, 0, 0, 0, 1, 0,    5, 0xF3, 0x73};
  EXPECT_EQ(Encoding(result), wire);
  MountRes decoded;
  ASSERT_TRUE(oncrpc::Decode(oncrpc::XdrReader(wire), &decoded));
  EXPECT_EQ(decoded.resok.fhandle, result.resok.fhandle);
  EXPECT_EQ(decoded.resok.auth_flavors.items, result.resok.auth_flavors.items);
}

TEST(MountTest, APathAboveTheLimitIsNotEncoded) {
  const std::string path(kMntpathlen + 1, '/');
  EXPECT_TRUE(Encoding(Dirpath{{path}}).empty());
}

}  // namespace
}  // namespace pollux::nfs
