// A file on a file system that stalls.
#ifndef POLLUX_NFS_SERVER_STALLED_FILE_FOR_TEST_H_
#define POLLUX_NFS_SERVER_STALLED_FILE_FOR_TEST_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "stack/base/fd.h"

namespace pollux::nfs {

// While it lives, opening the file blocks. Nobody may have the file open before.
class StalledFile {
 public:
  explicit StalledFile(const std::string& path) : fd_(open(path.c_str(), O_RDWR | O_CLOEXEC)) {
    EXPECT_EQ(fcntl(fd_.get(), F_SETLEASE, F_WRLCK), 0) << strerror(errno);
  }
  ~StalledFile() {
    fcntl(fd_.get(), F_SETLEASE, F_UNLCK);
    signal(SIGIO, before_);
  }
  StalledFile(const StalledFile&) = delete;
  StalledFile& operator=(const StalledFile&) = delete;

 private:
  // The holder of a file lease receives this signal.
  void (*const before_)(int) = signal(SIGIO, SIG_IGN);
  Fd fd_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_SERVER_STALLED_FILE_FOR_TEST_H_
