#include "tools/nfs/tree.h"

#include "gmock/gmock.h"
#include "tools/nfs/nfs_fixture.h"

namespace pollux::tools {
namespace {

using nfs::Ftype3;
using ::testing::HasSubstr;

class TreeTest : public NfsTest {
 protected:
  // srv/dir/f, srv/link -> dir, srv/dir/up -> ../dir/./f, and links that lead nowhere good.
  void Fill() {
    AtServer([this] {
      const uint64_t dir = files_.Add(1, "dir", Ftype3::kDir).attributes.fileid;
      files_.Add(dir, "f", Ftype3::kReg).attributes.size = 5;
      files_.Add(1, "link", Ftype3::kLnk).target = "dir";
      files_.Add(dir, "up", Ftype3::kLnk).target = "../dir/./f";
      files_.Add(1, "absolute", Ftype3::kLnk).target = "/etc/passwd";
      files_.Add(1, "above", Ftype3::kLnk).target = "dir/../../x";
      files_.Add(1, "loop", Ftype3::kLnk).target = "loop";
    });
  }
};

TEST_F(TreeTest, ResolvesDirectoriesAndSymbolicLinks) {
  Fill();
  const auto file = tree_->Resolve("/dir/f", true);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->attributes.size, 5u);
  for (const char* path : {"/link/f", "/dir/up", "/link/up", "//dir//f/"}) {
    const auto found = tree_->Resolve(path, true);
    ASSERT_TRUE(found.ok()) << path << ": " << found.status();
    EXPECT_EQ(found->attributes.fileid, file->attributes.fileid) << path;
  }
  const auto link = tree_->Resolve("/dir/up", false);
  ASSERT_TRUE(link.ok()) << link.status();
  EXPECT_EQ(link->attributes.type, Ftype3::kLnk);
  EXPECT_EQ(*tree_->ReadLink(link->handle, "up"), "../dir/./f");
  EXPECT_EQ(tree_->Resolve("/", true)->attributes.fileid, 1u);
}

TEST_F(TreeTest, LinksOutOfTheExportAreRefused) {
  Fill();
  for (const char* path : {"/absolute", "/above", "/absolute/x"}) {
    EXPECT_THAT(std::string(tree_->Resolve(path, true).status().message()),
                HasSubstr("leads out of the export"))
        << path;
  }
  EXPECT_THAT(std::string(tree_->Resolve("/loop", true).status().message()),
              HasSubstr("more than 40 symbolic links"));
  EXPECT_TRUE(tree_->Resolve("/absolute", false).ok());
  AtServer([this] { files_.Add(1, "escape", Ftype3::kLnk).target = "/\x1b[2J"; });
  EXPECT_THAT(std::string(tree_->Resolve("/escape", true).status().message()),
              HasSubstr("(/\\u001b[2J)"));
}

TEST_F(TreeTest, ErrorsNameThePathAndTheStatus) {
  Fill();
  EXPECT_EQ(tree_->Resolve("/dir/none", true).status().message(),
            "/srv/dir/none: no such file or directory (NFS3ERR_NOENT)");
  EXPECT_THAT(std::string(tree_->Resolve("/dir/f/x", true).status().message()),
              HasSubstr("NFS3ERR_NOTDIR"));
}

TEST_F(TreeTest, ResolvePlaceFindsTheParentOfAMissingName) {
  Fill();
  const auto place = tree_->ResolvePlace("/link/new/");
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->name, "new");
  EXPECT_EQ(place->dir, tree_->Resolve("/dir", true)->handle);
  EXPECT_EQ(tree_->ResolvePlace("/new")->dir, tree_->root());
  EXPECT_EQ(tree_->ResolvePlace("/")->name, "");
  EXPECT_FALSE(tree_->ResolvePlace("/none/new").ok());
}

TEST_F(TreeTest, ListsWithoutReaddirplus) {
  Fill();
  AtServer([&] {
    files_.readdirplus = false;
    files_.entries_a_page = 2;
    files_.bad_cookies = 1;
  });
  for (int i = 0; i < 2; ++i) {
    const auto root = tree_->List(*tree_->Resolve("/", true), "/srv");
    ASSERT_TRUE(root.ok()) << root.status();
    EXPECT_EQ(root->size(), AtServer([&] { return files_.file(1).names.size(); }));
    const auto link = std::find_if(root->begin(), root->end(), [](const NfsTree::Entry& entry) {
      return entry.name == "link";
    });
    ASSERT_NE(link, root->end());
    EXPECT_EQ(link->attributes.type, Ftype3::kLnk);
    EXPECT_EQ(link->target, "dir");
  }
  // It is asked once for what it does not know.
  EXPECT_EQ(AtServer([&] { return files_.calls[nfs::Procedure::kReaddirplus]; }), 1u);
}

TEST_F(TreeTest, ListsManyEntriesInOrderWithLinkTargets) {
  Fill();
  constexpr int kFiles = 5000;
  AtServer([&] {
    const uint64_t many = files_.Add(1, "many", Ftype3::kDir).attributes.fileid;
    for (int i = 0; i < kFiles; ++i) {
      const std::string name = "file" + std::to_string(10'000 + i);
      files_.Add(many, name, Ftype3::kReg).attributes.size = static_cast<uint64_t>(i);
    }
  });
  const auto entries = tree_->List(*tree_->Resolve("/many", true), "/srv/many");
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), size_t{kFiles});
  for (size_t i = 0; i < entries->size(); ++i) {
    EXPECT_EQ((*entries)[i].name, "file" + std::to_string(10'000 + i));
    EXPECT_EQ((*entries)[i].attributes.size, i);
  }
  const auto root = tree_->List(*tree_->Resolve("/", true), "/srv");
  ASSERT_TRUE(root.ok()) << root.status();
  const auto link = std::find_if(root->begin(), root->end(),
                                 [](const NfsTree::Entry& entry) { return entry.name == "link"; });
  ASSERT_NE(link, root->end());
  EXPECT_EQ(link->target, "dir");
}

TEST_F(TreeTest, AListingRestartsAfterABadCookie) {
  AtServer([this] {
    for (int i = 0; i < 250; ++i) files_.Add(1, "f" + std::to_string(i), Ftype3::kReg);
    files_.bad_cookies = 2;
  });
  const auto entries = tree_->List(*tree_->Resolve("/", true), "/srv");
  ASSERT_TRUE(entries.ok()) << entries.status();
  EXPECT_EQ(entries->size(), 250u);
  AtServer([this] { files_.bad_cookies = 100; });
  EXPECT_THAT(std::string(tree_->List(*tree_->Resolve("/", true), "/srv").status().message()),
              HasSubstr("NFS3ERR_BAD_COOKIE"));
}

TEST_F(TreeTest, RemovesFilesAndEmptyDirectories) {
  Fill();
  EXPECT_THAT(std::string(tree_->Remove(*tree_->ResolvePlace("/dir"), true).message()),
              HasSubstr("NFS3ERR_NOTEMPTY"));
  EXPECT_THAT(std::string(tree_->Remove(*tree_->ResolvePlace("/dir"), false).message()),
              HasSubstr("NFS3ERR_ISDIR"));
  for (const char* path : {"/dir/f", "/dir/up"}) {
    EXPECT_TRUE(tree_->Remove(*tree_->ResolvePlace(path), false).ok()) << path;
  }
  EXPECT_TRUE(tree_->Remove(*tree_->ResolvePlace("/dir"), true).ok());
  EXPECT_TRUE(absl::IsNotFound(tree_->Remove(*tree_->ResolvePlace("/dir"), true)));
}

}  // namespace
}  // namespace pollux::tools
