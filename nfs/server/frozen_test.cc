// A server whose first export is on a file system that is frozen, where calls that change names
// wait in the kernel, or on one that cannot store its data.
#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "nfs/server/server_for_test.h"

namespace pollux::nfs {
namespace {

bool Shell(const std::string& command) {
  // Where Debian has what only root needs.
  const std::string path = "PATH=/usr/sbin:/sbin:/usr/bin:/bin; export PATH; ";
  return std::system((path + "(" + command + ") >&2").c_str()) == 0;
}

// While it lives, nobody changes the file system at `path`. A process of its own thaws it: one that
// is killed meanwhile could not end before, nor could its threads that wait.
class Frozen {
 public:
  explicit Frozen(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    sigset_t end;
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    sigset_t before;
    pthread_sigmask(SIG_BLOCK, &end, &before);
    thaws_ = fork();
    if (thaws_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      int number = 0;
      sigwait(&end, &number);
      ioctl(fd_.get(), FITHAW, 0);
      _exit(0);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    EXPECT_GT(thaws_, 0);
    EXPECT_EQ(ioctl(fd_.get(), FIFREEZE, 0), 0) << strerror(errno);
  }
  ~Frozen() {
    kill(thaws_, SIGTERM);
    waitpid(thaws_, nullptr, 0);
  }
  Frozen(const Frozen&) = delete;
  Frozen& operator=(const Frozen&) = delete;

 private:
  Fd fd_;
  pid_t thaws_ = -1;
};

// The first export is a file system of its own, in an image.
class FrozenTest : public ServerTest {
 protected:
  // Makes the image, in the folder "images".
  virtual std::string MakeImage() const { return "truncate -s 64M image && mkfs.ext4 -q image"; }
  void SetUp() override {
    ServerTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    // Where nobody else sees it; it goes with the process.
    const bool own = unshare(CLONE_NEWNS) == 0 &&
                     mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    if (!own || mkdir(Path("images").c_str(), 0700) != 0 ||
        !Shell("cd " + Path("images") + " && " + MakeImage() + " && mount -o loop " +
               Path("images/image") + " " + Path("a") + " && chmod 0777 " + Path("a"))) {
      GTEST_SKIP() << "needs mkfs.ext4, loop devices and the right to mount";
    }
    for (const char* name : {"kept", "removed", "renamed"}) {
      std::ofstream(Path("a/") + name) << "text";
    }
    ASSERT_EQ(mkdir(Path("a/directory").c_str(), 0777), 0);
  }
  void TearDown() override {
    // The server that has it open keeps it until it goes.
    if (!directory_.empty()) {
      umount2(Path("a").c_str(), MNT_DETACH);
      umount2(Path("images").c_str(), MNT_DETACH);
    }
    ServerTest::TearDown();
  }

  // A call that ends well some time: then it adds to done_.
  template <class Res, class Args>
  void Begin(Client* client, Procedure procedure, const Args& args) {
    ++begun_;
    client->Call<Res>(procedure, args, [this, procedure](absl::Status status, const Res* results) {
      ++done_;
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(results->status, Nfsstat3::kOk) << static_cast<uint32_t>(procedure);
    });
  }

  uint32_t begun_ = 0, done_ = 0;
};

TEST_F(FrozenTest, OnlyCallsThatChangeAFrozenFileSystemWait) {
  StartServer();
  Client* const client = Connect();
  const NfsFh3 root = HandleOf(0), kept = HandleOf(0, "kept"), other = HandleOf(1);
  const Sattr3 attributes{.mode = 0640};
  const std::vector<uint8_t> data(8192, 'x');
  {
    const Frozen frozen(Path("a"));
    Begin<CreateRes>(client, Procedure::kCreate,
                     CreateArgs{.where = {root, {"file"}}, .how = {.obj_attributes = attributes}});
    Begin<CreateRes>(client, Procedure::kMkdir,
                     MkdirArgs{.where = {root, {"made"}}, .attributes = attributes});
    Begin<CreateRes>(client, Procedure::kSymlink,
                     SymlinkArgs{.where = {root, {"soft"}},
                                 .symlink_data = {absl::MakeConstSpan(data).first(4)}});
    Begin<CreateRes>(client, Procedure::kMknod,
                     MknodArgs{.where = {root, {"fifo"}}, .what = {.attributes = attributes}});
    Begin<RemoveRes>(client, Procedure::kRemove, RemoveArgs{root, {"removed"}});
    Begin<RemoveRes>(client, Procedure::kRmdir, RemoveArgs{root, {"directory"}});
    Begin<RenameRes>(client, Procedure::kRename,
                     RenameArgs{.from = {root, {"renamed"}}, .to = {root, {"new"}}});
    ASSERT_EQ(begun_, Storage::kThreads - 1);
    // A thread is left for who changes nothing.
    EXPECT_EQ(Getattr(client, kept), Nfsstat3::kOk);
    int read = 0;
    BeginReads(client, kept, 10, &read);
    EXPECT_TRUE(RunUntil([&] { return read == 10; }));
    Begin<LinkRes>(client, Procedure::kLink, LinkArgs{.file = kept, .link = {root, {"hard"}}});
    // And none is: other exports go on.
    const NfsFh3 file = CreateFile(client, other, "file");
    const WriteArgs write{
        .file = file, .count = 8192, .stable = StableHow::kFileSync, .data = {data}};
    EXPECT_EQ(Run<WriteRes>(client, Procedure::kWrite, write), Nfsstat3::kOk);
    BeginReads(client, file, 10, &read);
    EXPECT_TRUE(RunUntil([&] { return read == 20; }));
    EXPECT_EQ(done_, 0u);
    EXPECT_EQ(server_->busy(), Storage::kThreads);
  }
  EXPECT_TRUE(RunUntil([&] { return done_ == begun_; }));
  const auto exists = [this](const std::string& name) {
    return std::filesystem::exists(std::filesystem::symlink_status(Path("a/" + name)));
  };
  for (const char* name : {"file", "made", "soft", "fifo", "new", "hard"}) {
    EXPECT_TRUE(exists(name)) << name;
  }
  for (const char* name : {"removed", "directory", "renamed"}) EXPECT_FALSE(exists(name)) << name;
}

// Data waits in the kernel too, and holds no thread meanwhile.
TEST_F(FrozenTest, WaitingWritesHoldNoThread) {
  ASSERT_EQ(chmod(Path("a/kept").c_str(), 0666), 0);
  StartServer();
  Client* const client = Connect();
  const NfsFh3 kept = HandleOf(0, "kept");
  const std::vector<uint8_t> data(8192, 'x');
  {
    const Frozen frozen(Path("a"));
    for (uint64_t i = 0; i <= Storage::kThreads; ++i) {
      Begin<WriteRes>(client, Procedure::kWrite,
                      WriteArgs{.file = kept,
                                .offset = i * data.size(),
                                .count = 8192,
                                .stable = StableHow::kUnstable,
                                .data = {data}});
    }
    for (int i = 0; i < 10; ++i) EXPECT_EQ(Getattr(client, kept), Nfsstat3::kOk);
    EXPECT_EQ(done_, 0u);
  }
  EXPECT_TRUE(RunUntil([&] { return done_ == begun_; }));
  EXPECT_EQ(std::filesystem::file_size(Path("a/kept")), begun_ * data.size());
}

// The image is larger than the memory that it may take, which is noticed when data is stored.
class FailedStorageTest : public FrozenTest {
 protected:
  std::string MakeImage() const override {
    return "mount -t tmpfs -o size=4m none " + Path("images") + " && cd " + Path("images") +
           " && truncate -s 64M image && "
           "mkfs.ext4 -q -O ^has_journal -N 128 image";
  }
};

// The kernel reports a failure to store data once, here to the SETATTR.
TEST_F(FailedStorageTest, ASetattrThatFailsToStoreChangesTheWriteVerifier) {
  ASSERT_EQ(chown(Path("a/kept").c_str(), kUser, kUser), 0);
  StartServer();
  Client* const client = Connect();
  const NfsFh3 kept = HandleOf(0, "kept");
  const std::vector<uint8_t> data(256 << 10, 'x');
  uint64_t written = 0, committed = 0;
  for (uint64_t i = 0; i < 32; ++i) {
    const WriteArgs write{.file = kept,
                          .offset = i * data.size(),
                          .count = static_cast<uint32_t>(data.size()),
                          .stable = StableHow::kUnstable,
                          .data = {data}};
    ASSERT_EQ(Run<WriteRes>(client, Procedure::kWrite, write,
                            [&](const WriteRes& results) { written = results.resok.verf; }),
              Nfsstat3::kOk);
  }
  const SetattrArgs attributes{.object = kept, .new_attributes = {.mode = 0600}};
  ASSERT_NE(Run<SetattrRes>(client, Procedure::kSetattr, attributes), Nfsstat3::kOk);
  const Nfsstat3 status =
      Run<CommitRes>(client, Procedure::kCommit, CommitArgs{.file = kept},
                     [&](const CommitRes& results) { committed = results.resok.verf; });
  EXPECT_TRUE(status != Nfsstat3::kOk || committed != written);
}

}  // namespace
}  // namespace pollux::nfs
