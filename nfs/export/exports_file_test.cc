#include "nfs/export/exports_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "stack/base/address.h"

namespace pollux::nfs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::StatusOr<std::vector<Gid>> Resolve(const std::string& name) {
  if (name != "build.example")
    return absl::NotFoundError(absl::StrCat("host '", name, "': unknown"));
  return std::vector<Gid>{*ParseAddress("192.0.2.7"), *ParseAddress("2001:db8::7")};
}

absl::StatusOr<ExportsFile> Parse(const std::string& text) {
  return ParseExports(text, "exports", Resolve);
}

std::string ErrorOf(const std::string& text) { return std::string(Parse(text).status().message()); }

// The only export.
Export One(const std::string& text) {
  const auto file = Parse(text);
  EXPECT_TRUE(file.ok()) << file.status();
  if (!file.ok() || file->exports.size() != 1) return {};
  return file->exports[0];
}

std::vector<std::string> ClientsOf(const Export& exported) {
  std::vector<std::string> clients;
  for (const ClientRule& rule : exported.clients) {
    clients.push_back(absl::StrCat(FormatClients(rule), rule.rights.read_only ? " ro" : " rw"));
  }
  return clients;
}

ClientRights RightsOf(const std::string& options) {
  const Export exported = One(absl::StrCat("/srv *(", options, ")\n"));
  return exported.clients.empty() ? ClientRights{} : exported.clients[0].rights;
}

TEST(ExportsFileTest, ClientsAreHostsNetworksAndEveryone) {
  const Export exported =
      One("/srv/ *(ro) 192.0.2.0/24(rw) 198.51.100.0/255.255.252.0 2001:db8::/32(rw) 192.0.2.9(ro) "
          "build.example(rw)\n");
  EXPECT_EQ(exported.directory, "/srv");
  EXPECT_THAT(ClientsOf(exported),
              ElementsAre("192.0.2.9/32 ro", "192.0.2.7/32 rw", "2001:db8::7/128 rw",
                          "192.0.2.0/24 rw", "198.51.100.0/22 ro", "2001:db8::/32 rw", "* ro"));
  EXPECT_TRUE(exported.RightsOf(*ParseAddress("192.0.2.9"))->read_only);
  EXPECT_FALSE(exported.RightsOf(*ParseAddress("192.0.2.10"))->read_only);
  EXPECT_TRUE(exported.RightsOf(*ParseAddress("203.0.113.1"))->read_only);
}

TEST(ExportsFileTest, EachNameIsResolvedOnce) {
  int calls = 0;
  const auto resolve = [&calls](const std::string& name) {
    ++calls;
    return Resolve(name);
  };
  const auto file =
      ParseExports("/a build.example(rw)\n/b build.example build.example\n", "exports", resolve);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(calls, 1);
  ASSERT_EQ(file->exports.size(), 2u);
  EXPECT_THAT(ClientsOf(file->exports[0]), ElementsAre("192.0.2.7/32 rw", "2001:db8::7/128 rw"));
  EXPECT_EQ(file->exports[1].clients.size(), 4u);
}

TEST(ExportsFileTest, EveryRightIsParsed) {
  EXPECT_EQ(RightsOf("ro"), ClientRights{});
  EXPECT_EQ(RightsOf("rw,no_root_squash"),
            (ClientRights{.read_only = false, .root_squash = false}));
  EXPECT_EQ(RightsOf("all_squash,anonuid=1000,anongid=100"),
            (ClientRights{.all_squash = true, .anonymous_uid = 1000, .anonymous_gid = 100}));
  EXPECT_EQ(RightsOf("rw,ro,no_root_squash,root_squash,all_squash,no_all_squash"), ClientRights{});
  EXPECT_EQ(RightsOf("anonuid=-2").anonymous_uid, 4294967294u);
}

TEST(ExportsFileTest, DefaultOptionsHoldForTheirLine) {
  const auto file = Parse("/a -rw,no_root_squash 192.0.2.1 192.0.2.2(ro)\n/b 192.0.2.1\n");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->exports.size(), 2u);
  EXPECT_THAT(ClientsOf(file->exports[0]), ElementsAre("192.0.2.1/32 rw", "192.0.2.2/32 ro"));
  EXPECT_FALSE(file->exports[0].clients[1].rights.root_squash);
  EXPECT_THAT(ClientsOf(file->exports[1]), ElementsAre("192.0.2.1/32 ro"));
}

TEST(ExportsFileTest, CommentsContinuationsQuotesAndEscapesAreRead) {
  const auto file = Parse(
      "# /not *(ro) \\\n\n  \t\n"
      "/a \\\n  192.0.2.1(rw) \\\n\t192.0.2.2 # 192.0.2.3\n"
      "\"/two words\" *\n/three\\040words \"192.0.2.0/24\"(rw)\n/a#b *");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->exports.size(), 4u);
  EXPECT_THAT(ClientsOf(file->exports[0]), ElementsAre("192.0.2.1/32 rw", "192.0.2.2/32 ro"));
  EXPECT_EQ(file->exports[1].directory, "/two words");
  EXPECT_EQ(file->exports[2].directory, "/three words");
  EXPECT_THAT(ClientsOf(file->exports[2]), ElementsAre("192.0.2.0/24 rw"));
  EXPECT_EQ(file->exports[3].directory, "/a#b");
}

TEST(ExportsFileTest, LinesOfOneDirectoryAreOneExport) {
  EXPECT_THAT(ClientsOf(One("/a 192.0.2.0/24(rw)\n/a/ 192.0.2.1\n")),
              ElementsAre("192.0.2.1/32 ro", "192.0.2.0/24 rw"));
}

TEST(ExportsFileTest, AnEmptyFileExportsNothing) {
  for (const char* text : {"", "\n", "# nothing"}) EXPECT_THAT(Parse(text)->exports, IsEmpty());
}

TEST(ExportsFileTest, OptionsOfWhatTheServerAlwaysDoesAreAccepted) {
  const auto file = Parse("/a *(sync,no_subtree_check,hide,insecure,no_wdelay,sec=sys)\n");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->warnings, IsEmpty());
}

TEST(ExportsFileTest, OptionsWithoutEffectGetOneWarning) {
  const auto file = Parse("\n/a *(async,fsid=0)\n/b *(async)\n");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(
      file->warnings,
      ElementsAre("exports:2: option 'async' has no effect: every change is stored before "
                  "its reply",
                  "exports:2: option 'fsid' has no effect: file handles identify the export "
                  "by its path"));
}

TEST(ExportsFileTest, ErrorsNameLineAndReason) {
  EXPECT_EQ(ErrorOf("/a *\n\nsrv *\n"),
            "exports:3: 'srv' is not an absolute directory; write DIR CLIENT(OPTION,...)...");
  EXPECT_THAT(ErrorOf("/a \\\n *(rw,crossmnt)\n"),
              HasSubstr("exports:2: option 'crossmnt' is not supported: file systems"));
  EXPECT_THAT(ErrorOf("/a *(sec=krb5)"), HasSubstr("'sec=krb5' is not supported: AUTH_SYS"));
  EXPECT_THAT(ErrorOf("/a *(sec=krb5:sys)"), HasSubstr("'sec=krb5:sys'"));
  EXPECT_THAT(ErrorOf("/a *(rx)"), HasSubstr("'rx' is not an option of exports(5)"));
  EXPECT_THAT(ErrorOf("/a\n"), HasSubstr("no clients"));
  EXPECT_THAT(ErrorOf("/a -ro\n"), HasSubstr("no clients"));
  EXPECT_THAT(ErrorOf("/a 192.0.2.1 (rw)\n"), HasSubstr("'(rw)' has no client"));
  EXPECT_THAT(ErrorOf("/a *(rw, sync)\n"), HasSubstr("without spaces"));
  EXPECT_THAT(ErrorOf("/a *(rw)x\n"), HasSubstr("without spaces"));
  EXPECT_THAT(ErrorOf("/a *.example.com\n"), HasSubstr("wildcards"));
  EXPECT_THAT(ErrorOf("/a @hosts\n"), HasSubstr("netgroups"));
  EXPECT_THAT(ErrorOf("/a 192.0.2.0/33\n"), HasSubstr("192.0.2.0/33"));
  EXPECT_THAT(ErrorOf("/a 192.0.2.0/255.0.255.0\n"), HasSubstr("255.0.255.0"));
  EXPECT_THAT(ErrorOf("/a 2001:db8::/255.255.0.0\n"), HasSubstr("2001:db8::"));
  EXPECT_THAT(ErrorOf("/a nobody.example\n"), HasSubstr("exports:1: host 'nobody.example'"));
  EXPECT_THAT(ErrorOf("\"/a *\n"), HasSubstr("no closing quote"));
  for (const char* id : {"", "x", "-1", "4294967295"}) {
    EXPECT_THAT(ErrorOf(absl::StrCat("/a *(anonuid=", id, ")")), HasSubstr("anonuid=")) << id;
  }
}

TEST(ExportsFileTest, DirectoriesAndClientsAreLimited) {
  std::string directories, clients = "/a";
  for (size_t i = 0; i < kMaxServedExports; ++i) absl::StrAppend(&directories, "/", i, " *\n");
  for (size_t i = 0; i < kMaxClientNetworks; ++i) absl::StrAppend(&clients, " 192.0.2.1");
  EXPECT_TRUE(Parse(directories).ok());
  EXPECT_THAT(ErrorOf(directories + "/more *\n"),
              HasSubstr("exports:17: more than 16 directories"));
  EXPECT_TRUE(Parse(clients).ok());
  EXPECT_THAT(ErrorOf(clients + " *\n"), HasSubstr("more than 64 clients of /a"));
}

TEST(ExportsFileTest, FilesAreRead) {
  const std::string path = std::string(getenv("TEST_TMPDIR")) + "/exports";
  EXPECT_THAT(std::string(ReadExports(path, Resolve).status().message()), HasSubstr(path));
  std::ofstream(path) << "/a *\n";
  EXPECT_EQ(ReadExports(path, Resolve)->exports.size(), 1u);
  std::ofstream(path) << std::string((1 << 20) + 1, '\n');
  EXPECT_THAT(std::string(ReadExports(path, Resolve).status().message()), HasSubstr("1048576"));
}

}  // namespace
}  // namespace pollux::nfs
