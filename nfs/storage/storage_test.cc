// An export's threads.
#include "nfs/storage/storage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "stack/base/eventually_for_test.h"

namespace pollux::nfs {
namespace {

using ::testing::ElementsAre;

// Takes as long as a change that is put on stable storage.
class SlowJob final : public Storage::Job {
 public:
  void Run(Storage&, Identity&) override {
    usleep(5000);
    done = true;
  }
  void Transferred(int) override {}
  std::atomic<bool> done{true};
};

// Clients that always have more for it to do than it has threads must not keep others from their
// locks and mounts.
TEST(StorageTest, ControlWorkRunsUnderConstantLoad) {
  if (const absl::Status status = Identity().Begin(); !status.ok()) {
    GTEST_SKIP() << status.message();
  }
  auto storage = Storage::Start();
  ASSERT_TRUE(storage.ok()) << storage.status();
  std::array<SlowJob, 3 * Storage::kThreads> jobs;
  std::atomic<bool> served{false};
  uint32_t given = 0;
  bool asked = false;
  const auto give_up = std::chrono::steady_clock::now() + kHangGuard;
  while (!served && std::chrono::steady_clock::now() < give_up) {
    for (SlowJob& job : jobs) {
      if (!job.done.exchange(false)) continue;
      (*storage)->Run(&job);
      ++given;
    }
    // Once every thread is at work and there is more.
    if (!asked && given > jobs.size()) {
      asked = (*storage)->RunControl([&](Identity&) { served = true; });
    }
    usleep(200);
  }
  EXPECT_TRUE(served);
  for (SlowJob& job : jobs) {
    while (!job.done) usleep(1000);
  }
  while ((*storage)->control_work() > 0) usleep(1000);
}

// Reads three pages, of a file that has two, into memory of which some may not be there.
class ReadJob final : public Storage::Job {
 public:
  ReadJob() {
    file_ = Fd(memfd_create("read", MFD_CLOEXEC));
    const std::string text(2 * kPage, 'x');
    EXPECT_EQ(write(file_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    memory_ = static_cast<uint8_t*>(
        mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(memory_, MAP_FAILED);
  }
  ~ReadJob() override { munmap(memory_, 3 * kPage); }
  void Break(size_t page) { mprotect(memory_ + page * kPage, kPage, PROT_NONE); }
  // What it was told, the end last.
  std::vector<int> Do(Storage& storage, size_t offset) {
    told_.clear();
    done_ = false;
    offset_ = offset;
    storage.Run(this);
    while (!done_) usleep(100);
    return told_;
  }

  void Run(Storage& storage, Identity&) override {
    Transfer transfer{.kind = Transfer::Kind::kRead, .file = Fd(dup(file_.get()))};
    transfer.offset = offset_;
    transfer.to = {memory_, 3 * kPage};
    transfer.part_bytes = kPage;
    transfer_ = std::move(transfer);
    storage.Begin(transfer_, this);
  }
  void PartTransferred(int bytes) override { told_.push_back(bytes); }
  void Transferred(int result) override {
    told_.push_back(result);
    done_ = true;
  }

  static constexpr int kPage = 4096;

 private:
  Fd file_;
  Transfer transfer_;
  uint8_t* memory_ = nullptr;
  size_t offset_ = 0;
  std::vector<int> told_;
  std::atomic<bool> done_{true};
};

// Told in order, with all before the first that came short or failed; that is an error only when
// nothing was read.
TEST(StorageTest, PartsOfAReadCompleteInOrder) {
  if (const absl::Status status = Identity().Begin(); !status.ok()) {
    GTEST_SKIP() << status.message();
  }
  auto storage = Storage::Start();
  ASSERT_TRUE(storage.ok()) << storage.status();
  constexpr int kPage = ReadJob::kPage;
  ReadJob job;
  EXPECT_THAT(job.Do(**storage, 0), ElementsAre(kPage, 2 * kPage, 2 * kPage));
  EXPECT_EQ(job.Do(**storage, kPage + 1).back(), kPage - 1);
  EXPECT_EQ(job.Do(**storage, 2 * kPage).back(), 0);
  job.Break(1);
  EXPECT_THAT(job.Do(**storage, 0), ElementsAre(kPage, kPage));
  job.Break(0);
  EXPECT_THAT(job.Do(**storage, 0), ElementsAre(-EFAULT));
}

}  // namespace
}  // namespace pollux::nfs
