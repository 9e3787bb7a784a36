#include "nfs/procedures/listing_calls.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "nfs/export/export_for_test.h"
#include "oncrpc/codec.h"

namespace pollux::nfs {
namespace {

constexpr int kMany = 5000;

class ListingCallsTest : public ExportOnDisk {
 protected:
  void MakeMany() {
    for (int i = 0; i < kMany; ++i) MakeFile(absl::StrCat("file", i), "");
  }
  // The page after what is known, which it goes into; false at the end.
  bool ReadPage(std::map<std::string, int>* names) {
    const ReaddirRes page =
        Readdir(context_, {.dir = Root(), .cookie = cookie_, .cookieverf = verf_, .count = 4096});
    EXPECT_EQ(page.status, Nfsstat3::kOk);
    std::vector<uint8_t> space(4 + 4096);
    EXPECT_TRUE(oncrpc::Encode(page, absl::MakeSpan(space)).ok);
    for (const Entry3& entry : page.resok.entries.items) {
      ++(*names)[std::string(entry.name.text)];
      cookie_ = entry.cookie;
    }
    verf_ = page.resok.cookieverf;
    return page.status == Nfsstat3::kOk && !page.resok.eof;
  }

  uint64_t cookie_ = 0;
  uint64_t verf_ = 0;
};

TEST_F(ListingCallsTest, ReaddirReturnsEveryEntryOnce) {
  MakeMany();
  std::map<std::string, int> names;
  while (ReadPage(&names)) {
  }
  EXPECT_EQ(names.size(), kMany + 2u);
  for (const auto& [name, times] : names) EXPECT_EQ(times, 1) << name;
  EXPECT_TRUE(names.contains("."));
  EXPECT_TRUE(names.contains(".."));
}

TEST_F(ListingCallsTest, CookiesStayValidWhileEntriesAreRemoved) {
  MakeMany();
  std::map<std::string, int> names;
  std::set<std::string> removed;
  while (ReadPage(&names)) {
    // What was told, the entry of the cookie too.
    for (const auto& [name, times] : names) {
      if (name[0] != '.' && removed.insert(name).second) unlink(Path(name).c_str());
    }
  }
  EXPECT_EQ(names.size(), kMany + 2u);
  for (const auto& [name, times] : names) EXPECT_EQ(times, 1) << name;
}

TEST_F(ListingCallsTest, ReaddirChecksTheCookieVerifier) {
  MakeFile("f", "");
  std::map<std::string, int> names;
  ReadPage(&names);
  EXPECT_EQ(
      Readdir(context_, {.dir = Root(), .cookie = cookie_, .cookieverf = verf_ + 1, .count = 4096})
          .status,
      Nfsstat3::kBadCookie);
  // From the beginning on there is nothing to hold to.
  EXPECT_EQ(Readdir(context_, {.dir = Root(), .cookieverf = verf_ + 1, .count = 4096}).status,
            Nfsstat3::kOk);
}

TEST_F(ListingCallsTest, ReaddirplusChecksTheCookieVerifier) {
  MakeFile("f", "");
  const ReaddirplusRes page =
      Readdirplus(context_, {.dir = Root(), .dircount = 4096, .maxcount = 4096});
  ASSERT_EQ(page.status, Nfsstat3::kOk);
  ReaddirplusArgs next{.dir = Root(),
                       .cookie = page.resok.entries.items[0].cookie,
                       .cookieverf = page.resok.cookieverf,
                       .dircount = 4096,
                       .maxcount = 4096};
  EXPECT_EQ(Readdirplus(context_, next).status, Nfsstat3::kOk);
  ++next.cookieverf;
  EXPECT_EQ(Readdirplus(context_, next).status, Nfsstat3::kBadCookie);
}

TEST_F(ListingCallsTest, ReaddirplusReturnsAttributesAndHandles) {
  MakeFile("f", "text");
  ASSERT_EQ(symlink("f", Path("l").c_str()), 0);
  const ReaddirplusRes page =
      Readdirplus(context_, {.dir = Root(), .dircount = 4096, .maxcount = 8192});
  ASSERT_EQ(page.status, Nfsstat3::kOk);
  EXPECT_TRUE(page.resok.eof);
  ASSERT_EQ(page.resok.entries.items.size(), 4u);
  for (const Entryplus3& entry : page.resok.entries.items) {
    const std::string name(entry.name.text);
    ASSERT_TRUE(entry.name_handle.has_value()) << name;
    // The export has no parent.
    EXPECT_EQ(*entry.name_handle, name == ".." ? Root() : HandleOf(name)) << name;
    EXPECT_EQ(entry.fileid, entry.name_attributes->fileid) << name;
    if (name == "f") {
      EXPECT_EQ(entry.name_attributes->size, 4u);
    }
    if (name == "l") {
      EXPECT_EQ(entry.name_attributes->type, Ftype3::kLnk);
    }
  }
}

TEST_F(ListingCallsTest, ReaddirplusStaysWithinMaxcount) {
  for (int i = 0; i < 100; ++i) MakeFile(absl::StrCat("file", i), "");
  for (const uint32_t maxcount : {1024u, 4096u, 1u << 20}) {
    const ReaddirplusRes page =
        Readdirplus(context_, {.dir = Root(), .dircount = 1u << 20, .maxcount = maxcount});
    ASSERT_EQ(page.status, Nfsstat3::kOk);
    std::vector<uint8_t> space(4 + std::min(maxcount, kMaxDirectoryBytes));
    EXPECT_TRUE(oncrpc::Encode(page, absl::MakeSpan(space)).ok) << maxcount;
    EXPECT_EQ(page.resok.eof, maxcount == 1u << 20);
  }
  EXPECT_EQ(Readdirplus(context_, {.dir = Root(), .dircount = 1, .maxcount = 4096})
                .resok.entries.items.size(),
            1u);
}

TEST_F(ListingCallsTest, InvalidListingsGetTheMatchingStatus) {
  MakeFile("f", "");
  EXPECT_EQ(Readdir(context_, {.dir = HandleOf("f"), .count = 4096}).status, Nfsstat3::kNotdir);
  EXPECT_EQ(Readdir(context_, {.dir = Root(), .count = 16}).status, Nfsstat3::kToosmall);
  ASSERT_EQ(chmod(directory_.c_str(), 0711), 0);
  EXPECT_EQ(Readdir(context_, {.dir = Root(), .count = 4096}).status, Nfsstat3::kAcces);
  // Readable, but not to be searched: names without attributes.
  ASSERT_EQ(chmod(directory_.c_str(), 0744), 0);
  const ReaddirplusRes page =
      Readdirplus(context_, {.dir = Root(), .dircount = 4096, .maxcount = 4096});
  ASSERT_EQ(page.status, Nfsstat3::kOk);
  for (const Entryplus3& entry : page.resok.entries.items) {
    EXPECT_FALSE(entry.name_handle.has_value());
  }
}

}  // namespace
}  // namespace pollux::nfs
