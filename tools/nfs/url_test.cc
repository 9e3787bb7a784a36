#include "tools/nfs/url.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "stack/base/address.h"

namespace pollux::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(UrlTest, ParsesHostPortAndPath) {
  const auto plain = ResolveNfsUrl("nfs://192.0.2.1/srv/dir/f");
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_THAT(plain->servers, ElementsAre(Gid::FromIpv4(0xC0000201)));
  EXPECT_EQ(plain->port, 20049);
  EXPECT_EQ(plain->path, "/srv/dir/f");
  const auto port = ResolveNfsUrl("nfs://[2001:db8::1]:2050//srv/./x/");
  ASSERT_TRUE(port.ok()) << port.status();
  EXPECT_THAT(port->servers, ElementsAre(*pollux::ParseAddress("2001:db8::1")));
  EXPECT_EQ(port->port, 2050);
  EXPECT_EQ(port->path, "/srv/x");
  EXPECT_EQ(ResolveNfsUrl("nfs://192.0.2.1/")->path, "/");
}

// RFC 3986 section 2.1
TEST(UrlTest, PercentEncodedPathsAreDecoded) {
  EXPECT_EQ(ResolveNfsUrl("nfs://192.0.2.1/srv/two%20words/%C3%a4")->path,
            "/srv/two words/\xC3\xA4");
  EXPECT_EQ(ResolveNfsUrl("nfs://192.0.2.1/srv/100%25")->path, "/srv/100%");
  EXPECT_EQ(ResolveNfsUrl("nfs://192.0.2.1/srv/%2520")->path, "/srv/%20");
  EXPECT_EQ(ResolveNfsUrl("nfs://192.0.2.1/srv/%2E/a+b")->path, "/srv/a+b");
}

TEST(UrlTest, ErrorsNameTheInvalidPart) {
  for (const auto& [url, why] : {std::pair{"http://192.0.2.1/x", "does not begin with nfs://"},
                                 {"nfs://192.0.2.1", "no path"},
                                 {"nfs://192.0.2/x", "192.0.2"},
                                 {"nfs:///x", "not an"},
                                 {"nfs://127.0.0.1/x", "one host"},
                                 {"nfs://192.0.2.1:0/x", "not a port"},
                                 {"nfs://192.0.2.1:65536/x", "not a port"},
                                 {"nfs://[2001:db8::1/x", "no ']'"},
                                 {"nfs://[2001:db8::1]2/x", "no port after"},
                                 {"nfs://192.0.2.1/x/../y", "'..'"},
                                 {"nfs://192.0.2.1/x/%2e%2E/y", "'..'"},
                                 {"nfs://192.0.2.1/x/100%", "'100%' is not a name"},
                                 {"nfs://192.0.2.1/x/%2", "%25"},
                                 {"nfs://192.0.2.1/x/%zz", "%25"},
                                 {"nfs://192.0.2.1/x/a%2Fb", "'a%2Fb' is not a name"},
                                 {"nfs://192.0.2.1/x/a%00", "'a%00' is not a name"}}) {
    const auto parsed = ResolveNfsUrl(url);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << url;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(why)) << url;
  }
}

TEST(UrlTest, AnUnknownNameIsNotFound) {
  // Longer than a label may be: no resolver asks anybody for it.
  const std::string name(64, 'x');
  for (const absl::Status& status : {ResolveNfsUrl("nfs://" + name + ":2050/x").status(),
                                     ResolveHostPort(name + ":2050", 0).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("'" + name + "'"));
  }
}

TEST(UrlTest, ThePortOfAHostIsOptional) {
  EXPECT_EQ(ResolveHostPort("192.0.2.1", 7)->port, 7);
  EXPECT_EQ(ResolveHostPort("192.0.2.1:9", 7)->port, 9);
  EXPECT_EQ(ResolveHostPort("2001:db8::1", 7)->port, 7);
  EXPECT_EQ(ResolveHostPort("[2001:db8::1]:9", 7)->port, 9);
}

}  // namespace
}  // namespace pollux::tools
