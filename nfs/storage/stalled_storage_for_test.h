// A file system that stalls.
#ifndef POLLUX_NFS_STORAGE_STALLED_STORAGE_FOR_TEST_H_
#define POLLUX_NFS_STORAGE_STALLED_STORAGE_FOR_TEST_H_

#include <future>
#include <latch>
#include <memory>

#include "nfs/storage/storage.h"

namespace pollux::nfs {

// Blocks every thread of a storage from construction until GoOn() or destruction. When the
// constructor returns, no control work is queued.
class StalledStorage {
 public:
  explicit StalledStorage(Storage* storage) {
    const auto begun = std::make_shared<std::latch>(Storage::kThreads);
    const std::shared_future<void> until = goes_on_.get_future().share();
    for (uint32_t i = 0; i < Storage::kThreads; ++i) {
      while (!storage->RunControl([begun, until](Identity&) {
        begun->count_down();
        until.wait();
      })) {
      }
    }
    begun->wait();
  }
  ~StalledStorage() {
    if (stalled_) GoOn();
  }
  StalledStorage(const StalledStorage&) = delete;
  StalledStorage& operator=(const StalledStorage&) = delete;

  void GoOn() {
    stalled_ = false;
    goes_on_.set_value();
  }

 private:
  std::promise<void> goes_on_;
  bool stalled_ = true;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_STORAGE_STALLED_STORAGE_FOR_TEST_H_
