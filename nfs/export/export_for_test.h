// An exported directory for a test, and the identity of the test's thread.
#ifndef POLLUX_NFS_EXPORT_EXPORT_FOR_TEST_H_
#define POLLUX_NFS_EXPORT_EXPORT_FOR_TEST_H_

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "nfs/export/export_tree.h"
#include "nfs/export/file_handle.h"
#include "nfs/procedures/call_context.h"

namespace pollux::nfs {

// Calls are made as kUser unless the test changes it. All users may write to the directory.
class ExportOnDisk : public testing::Test {
 protected:
  static constexpr uint32_t kUser = 1234;
  static constexpr uint32_t kGroup = 4321;

  void SetUp() override {
    if (const absl::Status status = identity_.Begin(); !status.ok()) {
      GTEST_SKIP() << status.message();
    }
    std::string pattern = std::string(getenv("TEST_TMPDIR")) + "/exportXXXXXX";
    directory_ = mkdtemp(pattern.data());
    ASSERT_EQ(chmod(directory_.c_str(), 0777), 0);
    exported_.directory = directory_;
    rights_.read_only = false;
    OpenTree();
    context_.caller = {.uid = kUser, .gid = kGroup, .groups = {}};
  }
  void TearDown() override {
    if (!directory_.empty()) std::filesystem::remove_all(directory_);
  }

  // Opens the tree with the current exported_.
  void OpenTree() {
    auto tree = ExportTree::Open(exported_, key_);
    ASSERT_TRUE(tree.ok()) << tree.status();
    tree_ = *std::move(tree);
    context_.tree = tree_.get();
    context_.rights = &rights_;
    context_.changes = &changes_;
    context_.verifier = &verifier_;
    context_.identity = &identity_;
    context_.block = absl::MakeSpan(block_);
  }

  std::string Path(const std::string& name) const { return directory_ + "/" + name; }
  NfsFh3 Root() const { return *tree_->HandleOf(tree_->root()); }
  // Returns the handle of the object at a path below the export, without following symbolic links.
  NfsFh3 HandleOf(const std::string& path) const {
    Fd object;
    EXPECT_EQ(tree_->Walk(path, &object), Nfsstat3::kOk) << path;
    return tree_->HandleOf(object).value_or(NfsFh3{});
  }
  // Creates a file owned by root.
  void MakeFile(const std::string& name, const std::string& text, mode_t mode = 0644) {
    std::ofstream(Path(name)) << text;
    ASSERT_EQ(chmod(Path(name).c_str(), mode), 0);
  }
  std::string Text(const std::string& name) const {
    std::ifstream in(Path(name));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  struct stat Stat(const std::string& name) const {
    struct stat attributes = {};
    EXPECT_EQ(lstat(Path(name).c_str(), &attributes), 0) << name;
    return attributes;
  }

  std::string directory_;
  Export exported_;
  ClientRights rights_;
  HandleKey key_{{}};
  std::unique_ptr<ExportTree> tree_;
  ChangeWatch changes_;
  WriteVerifier verifier_{7};
  Identity identity_;
  std::vector<uint8_t> block_ = std::vector<uint8_t>(1 << 20);
  CallContext context_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_EXPORT_EXPORT_FOR_TEST_H_
