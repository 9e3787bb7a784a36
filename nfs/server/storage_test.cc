// An export's threads.
#include "nfs/server/storage.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

namespace pollux::nfs {
namespace {

// A guard against hanging, not an expectation.
constexpr std::chrono::seconds kPatience{10};

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
TEST(StorageTest, ControlWorkGetsItsTurn) {
  if (const absl::Status status = Identity().Begin(); !status.ok()) {
    GTEST_SKIP() << status.message();
  }
  auto storage = Storage::Start();
  ASSERT_TRUE(storage.ok()) << storage.status();
  std::array<SlowJob, 3 * Storage::kThreads> jobs;
  std::atomic<bool> served{false};
  uint32_t given = 0;
  bool asked = false;
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
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

}  // namespace
}  // namespace pollux::nfs
