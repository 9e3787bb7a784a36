#include "nfs/export/export_tree.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "nfs/export/export_for_test.h"

namespace pollux::nfs {
namespace {

using ::testing::HasSubstr;

class ExportTreeTest : public ExportOnDisk {
 protected:
  Nfsstat3 Find(const NfsFh3& handle) {
    Fd object;
    return tree_->Find(handle.span(), &object);
  }
  Nfsstat3 Lookup(const std::string& directory, const std::string& name, Fd* object) {
    Fd at;
    EXPECT_EQ(tree_->FindDirectory(HandleOf(directory).span(), &at), Nfsstat3::kOk);
    return tree_->Lookup(at, name, object);
  }
};

TEST_F(ExportTreeTest, HandlesSurviveRestart) {
  MakeFile("f", "text");
  const NfsFh3 file = HandleOf("f"), root = Root();
  tree_.reset();
  OpenTree();
  EXPECT_EQ(Find(file), Nfsstat3::kOk);
  EXPECT_EQ(Find(root), Nfsstat3::kOk);
  EXPECT_EQ(Root(), root);
  ASSERT_EQ(rename(Path("f").c_str(), Path("g").c_str()), 0);
  EXPECT_EQ(HandleOf("g"), file);
}

// RFC 1813 section 2.5. A file that reuses the inode number of another has another handle, too.
TEST_F(ExportTreeTest, HandlesOfDifferentFilesDiffer) {
  MakeFile("f", "text");
  MakeFile("g", "text");
  ASSERT_EQ(link(Path("f").c_str(), Path("l").c_str()), 0);
  const NfsFh3 first = HandleOf("f");
  EXPECT_EQ(HandleOf("l"), first);
  EXPECT_NE(HandleOf("g"), first);
  EXPECT_NE(Root(), first);
  ASSERT_EQ(unlink(Path("f").c_str()), 0);
  ASSERT_EQ(unlink(Path("l").c_str()), 0);
  MakeFile("f", "text");
  EXPECT_NE(HandleOf("f"), first);
}

TEST_F(ExportTreeTest, ForgedForeignAndStaleHandlesAreRejected) {
  MakeFile("f", "text");
  NfsFh3 handle = HandleOf("f");
  ASSERT_EQ(unlink(Path("f").c_str()), 0);
  EXPECT_EQ(Find(handle), Nfsstat3::kStale);
  handle.bytes[handle.size - 1] ^= 1;
  EXPECT_EQ(Find(handle), Nfsstat3::kBadhandle);
  EXPECT_EQ(Find(NfsFh3{}), Nfsstat3::kBadhandle);
  // Sealed with our key, of another export.
  ASSERT_EQ(mkdir(Path("d").c_str(), 0755), 0);
  const NfsFh3 of_this = HandleOf("d");
  exported_.directory = Path("d");
  OpenTree();
  EXPECT_EQ(Find(of_this), Nfsstat3::kStale);
}

// The kernel fails with EAGAIN if a rename happens while it resolves "..".
TEST_F(ExportTreeTest, WalksSucceedDuringRenames) {
  ASSERT_EQ(mkdir(Path("d").c_str(), 0755), 0);
  MakeFile("f", "text");
  std::atomic<bool> done{false};
  std::thread renamer([&] {
    while (!done) {
      EXPECT_EQ(rename(Path("f").c_str(), Path("g").c_str()), 0);
      EXPECT_EQ(rename(Path("g").c_str(), Path("f").c_str()), 0);
    }
  });
  // Single attempts fail so often that a Walk() without repetition would fail, too.
  constexpr int kFailures = 20;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  open_how how = {};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH;
  int failures = 0;
  while (failures < kFailures && !HasFailure() && std::chrono::steady_clock::now() < end) {
    const Fd once(static_cast<int>(
        syscall(SYS_openat2, tree_->root().get(), "d/../d/../d", &how, sizeof(how))));
    if (!once.ok()) ++failures;
    Fd object;
    EXPECT_EQ(tree_->Walk("d/../d/../d", &object), Nfsstat3::kOk);
  }
  done = true;
  renamer.join();
}

TEST_F(ExportTreeTest, LookupsCannotLeaveTheExport) {
  ASSERT_EQ(mkdir(Path("in").c_str(), 0755), 0);
  ASSERT_EQ(mkdir(Path("in/d").c_str(), 0755), 0);
  ASSERT_EQ(symlink("/etc", Path("in/link").c_str()), 0);
  const std::string outside = directory_;
  exported_.directory = directory_ = Path("in");
  OpenTree();
  Fd object;
  EXPECT_EQ(Lookup("", "..", &object), Nfsstat3::kOk);
  EXPECT_EQ(tree_->HandleOf(object), Root());
  EXPECT_EQ(Lookup("d", "..", &object), Nfsstat3::kOk);
  EXPECT_EQ(tree_->HandleOf(object), Root());
  EXPECT_EQ(Lookup("", "../in", &object), Nfsstat3::kInval);
  EXPECT_EQ(Lookup("", "link", &object), Nfsstat3::kOk);
  struct stat attributes;
  ASSERT_EQ(fstat(object.get(), &attributes), 0);
  EXPECT_TRUE(S_ISLNK(attributes.st_mode));
  EXPECT_EQ(tree_->FindDirectory(HandleOf("link").span(), &object), Nfsstat3::kNotdir);
  EXPECT_NE(tree_->Walk("link/passwd", &object), Nfsstat3::kOk);
  EXPECT_NE(tree_->Walk("../..", &object), Nfsstat3::kOk);
  EXPECT_NE(tree_->Walk("/../..", &object), Nfsstat3::kOk);

  // What the server's administrator moves out is out, and nothing above it can be named.
  Fd directory;
  const NfsFh3 moved = HandleOf("d");
  ASSERT_EQ(tree_->FindDirectory(moved.span(), &directory), Nfsstat3::kOk);
  ASSERT_EQ(rename(Path("d").c_str(), (outside + "/d").c_str()), 0);
  EXPECT_EQ(Find(moved), Nfsstat3::kStale);
  EXPECT_EQ(tree_->Lookup(directory, "..", &object), Nfsstat3::kStale);
  MakeFile("f", "text");
  MakeFile("linked", "text");
  const NfsFh3 file = HandleOf("f"), linked = HandleOf("linked");
  ASSERT_EQ(rename(Path("f").c_str(), (outside + "/f").c_str()), 0);
  EXPECT_EQ(Find(file), Nfsstat3::kStale);
  // Its other name is inside.
  ASSERT_EQ(link(Path("linked").c_str(), (outside + "/linked").c_str()), 0);
  EXPECT_EQ(Find(linked), Nfsstat3::kOk);
  ASSERT_EQ(rename((outside + "/f").c_str(), Path("f").c_str()), 0);
  EXPECT_EQ(Find(file), Nfsstat3::kOk);
  directory_ = outside;
}

// The kernel may take that name for the file's.
TEST_F(ExportTreeTest, ARemovedNameOutsideMakesNoFileStale) {
  ASSERT_EQ(mkdir(Path("in").c_str(), 0755), 0);
  const std::string outside = directory_;
  exported_.directory = directory_ = Path("in");
  OpenTree();
  MakeFile("f", "text");
  const NfsFh3 file = HandleOf("f");
  const std::string other = outside + "/f";
  ASSERT_EQ(link(Path("f").c_str(), other.c_str()), 0);
  const Fd held(open(other.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(unlink(other.c_str()), 0);
  EXPECT_EQ(Find(file), Nfsstat3::kOk);
  // A file may have a name that looks like one.
  MakeFile("g", "text");
  const NfsFh3 moved = HandleOf("g");
  ASSERT_EQ(rename(Path("g").c_str(), (outside + "/g (deleted)").c_str()), 0);
  EXPECT_EQ(Find(moved), Nfsstat3::kStale);
  directory_ = outside;
}

// No path names it, but clients go down step by step.
TEST_F(ExportTreeTest, HandlesWorkBelowTheMaximumPathLength) {
  const std::string name(250, 'd');
  const std::string outside = directory_;
  ASSERT_EQ(mkdir(Path("in").c_str(), 0755), 0);
  exported_.directory = directory_ = Path("in");
  OpenTree();
  NfsFh3 at = Root(), above;
  Fd directory, object;
  for (int depth = 1; depth <= 20; ++depth) {
    above = at;
    ASSERT_EQ(tree_->FindDirectory(at.span(), &directory), Nfsstat3::kOk) << depth;
    ASSERT_EQ(mkdirat(directory.get(), name.c_str(), 0777), 0) << depth;
    ASSERT_EQ(tree_->Lookup(directory, name, &object), Nfsstat3::kOk) << depth;
    at = *tree_->HandleOf(object);
  }
  ASSERT_EQ(tree_->FindDirectory(at.span(), &directory), Nfsstat3::kOk);
  ASSERT_TRUE(Fd(openat(directory.get(), "f", O_CREAT | O_WRONLY | O_CLOEXEC, 0644)).ok());
  ASSERT_EQ(tree_->Lookup(directory, "f", &object), Nfsstat3::kOk);
  EXPECT_EQ(Find(*tree_->HandleOf(object)), Nfsstat3::kOk);
  ASSERT_EQ(tree_->Lookup(directory, "..", &object), Nfsstat3::kOk);
  EXPECT_EQ(tree_->HandleOf(object), above);
  // What is above decides.
  ASSERT_EQ(rename(Path(name).c_str(), (outside + "/" + name).c_str()), 0);
  EXPECT_EQ(Find(at), Nfsstat3::kStale);
  EXPECT_EQ(tree_->Lookup(directory, "..", &object), Nfsstat3::kStale);
  directory_ = outside;
}

TEST_F(ExportTreeTest, UnsupportedDirectoriesAreNotExported) {
  exported_.directory = Path("none");
  EXPECT_THAT(std::string(ExportTree::Open(exported_, key_).status().message()),
              HasSubstr("No such file"));
  MakeFile("f", "");
  exported_.directory = Path("f");
  EXPECT_THAT(std::string(ExportTree::Open(exported_, key_).status().message()),
              HasSubstr("Not a directory"));
  exported_.directory = "/proc";
  EXPECT_THAT(std::string(ExportTree::Open(exported_, key_).status().message()),
              HasSubstr("no file handles"));
}

}  // namespace
}  // namespace pollux::nfs
