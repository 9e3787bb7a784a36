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
  const ClientRights* const rights = parsed->RightsOf(*ParseAddress("198.51.100.7"));
  ASSERT_NE(rights, nullptr);
  EXPECT_EQ(*rights, ClientRights{});
  EXPECT_EQ(FormatClients(parsed->clients[0]), "*");
}

TEST(ExportTest, EveryOptionIsParsed) {
  const auto parsed =
      ParseExport("/srv/data/:rw,clients=192.0.2.0/24,no_root_squash,clients=2001:db8::1");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->directory, "/srv/data");
  ASSERT_EQ(parsed->clients.size(), 2u);
  EXPECT_EQ(FormatClients(parsed->clients[0]), "192.0.2.0/24");
  EXPECT_EQ(FormatClients(parsed->clients[1]), "2001:db8::1/128");
  for (const ClientRule& rule : parsed->clients) {
    EXPECT_EQ(rule.rights, (ClientRights{.read_only = false, .root_squash = false}));
  }
  EXPECT_TRUE(parsed->RightsOf(*ParseAddress("192.0.2.255")));
  EXPECT_FALSE(parsed->RightsOf(*ParseAddress("192.0.3.1")));
  EXPECT_TRUE(parsed->RightsOf(*ParseAddress("2001:db8::1")));
  EXPECT_FALSE(parsed->RightsOf(*ParseAddress("2001:db8::2")));
}

TEST(ExportTest, DirectoriesMayContainColonsAndCommas) {
  EXPECT_EQ(ParseExport("/a:row:rw")->directory, "/a:row");
  EXPECT_EQ(ParseExport("/a:ro/b:rw")->directory, "/a:ro/b");
  EXPECT_EQ(ParseExport("/a,b:ro")->directory, "/a,b");
  EXPECT_EQ(ParseExport("/")->directory, "/");
  EXPECT_FALSE(ParseExport("/a:ro:rw")->clients[0].rights.read_only);
  EXPECT_EQ(ParseExport("/a:ro:rw")->directory, "/a:ro");
}

TEST(ExportTest, DirectoriesAreNormalized) {
  EXPECT_EQ(ParseExport("//srv/./data//:rw")->directory, "/srv/data");
  EXPECT_EQ(ParseExport("/./")->directory, "/");
  EXPECT_EQ(ParseExport("/srv/..data/.x")->directory, "/srv/..data/.x");
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
