#include "nfs/export/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "stack/base/address.h"

namespace pollux::nfs {
namespace {

using ::testing::HasSubstr;

TEST(ExportTest, DefaultsAreReadOnlyWithRootSquash) {
  const auto parsed = ParseExport("/srv/data");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->directory, "/srv/data");
  EXPECT_TRUE(parsed->read_only);
  EXPECT_TRUE(parsed->root_squash);
  EXPECT_TRUE(parsed->Admits(*ParseAddress("198.51.100.7")));
}

TEST(ExportTest, EveryOptionIsParsed) {
  const auto parsed =
      ParseExport("/srv/data/:rw,clients=192.0.2.0/24,no_root_squash,clients=2001:db8::1");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->directory, "/srv/data");
  EXPECT_FALSE(parsed->read_only);
  EXPECT_FALSE(parsed->root_squash);
  ASSERT_EQ(parsed->clients.size(), 2u);
  EXPECT_EQ(FormatNetwork(parsed->clients[0]), "192.0.2.0/24");
  EXPECT_EQ(FormatNetwork(parsed->clients[1]), "2001:db8::1/128");
  EXPECT_TRUE(parsed->Admits(*ParseAddress("192.0.2.255")));
  EXPECT_FALSE(parsed->Admits(*ParseAddress("192.0.3.1")));
  EXPECT_TRUE(parsed->Admits(*ParseAddress("2001:db8::1")));
  EXPECT_FALSE(parsed->Admits(*ParseAddress("2001:db8::2")));
}

TEST(ExportTest, DirectoriesMayContainColonsAndCommas) {
  EXPECT_EQ(ParseExport("/a:row:rw")->directory, "/a:row");
  EXPECT_EQ(ParseExport("/a:ro/b:rw")->directory, "/a:ro/b");
  EXPECT_EQ(ParseExport("/a,b:ro")->directory, "/a,b");
  EXPECT_EQ(ParseExport("/")->directory, "/");
  EXPECT_FALSE(ParseExport("/a:ro:rw")->read_only);
  EXPECT_EQ(ParseExport("/a:ro:rw")->directory, "/a:ro");
}

TEST(ExportTest, ErrorsNameTheInvalidPart) {
  for (const char* text : {"", ":rw", "srv:rw", ",clients=192.0.2.1"}) {
    EXPECT_THAT(std::string(ParseExport(text).status().message()),
                HasSubstr("no absolute directory"))
        << text;
  }
  EXPECT_THAT(std::string(ParseExport("/a:rw,sync").status().message()), HasSubstr("'sync'"));
  EXPECT_THAT(std::string(ParseExport("/a,clients=192.0.2.0/33").status().message()),
              HasSubstr("192.0.2.0/33"));
  EXPECT_THAT(std::string(ParseExport("/a,clients=here").status().message()), HasSubstr("'here'"));
  std::string many = "/a";
  for (size_t i = 0; i < kMaxClientNetworks; ++i) absl::StrAppend(&many, ",clients=192.0.2.1");
  EXPECT_TRUE(ParseExport(many).ok());
  EXPECT_FALSE(ParseExport(many + ",clients=192.0.2.1").ok());
}

}  // namespace
}  // namespace pollux::nfs
