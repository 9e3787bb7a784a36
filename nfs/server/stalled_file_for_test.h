// A file on a file system that stalls, and one on which a process has a lease.
#ifndef POLLUX_NFS_SERVER_STALLED_FILE_FOR_TEST_H_
#define POLLUX_NFS_SERVER_STALLED_FILE_FOR_TEST_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/fanotify.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "stack/base/fd.h"

namespace pollux::nfs {

// While it lives, opening the file blocks: the kernel waits for permission, which comes when the
// group is closed. Needs CAP_SYS_ADMIN.
class StalledFile {
 public:
  explicit StalledFile(const std::string& path)
      : group_(fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC, O_RDONLY)) {
    EXPECT_TRUE(group_.ok()) << "fanotify_init: " << strerror(errno);
    EXPECT_EQ(fanotify_mark(group_.get(), FAN_MARK_ADD, FAN_OPEN_PERM, AT_FDCWD, path.c_str()), 0)
        << strerror(errno);
  }

 private:
  Fd group_;
};

// While it lives, opening the file waits for the end of a lease, or fails with EAGAIN if O_NONBLOCK
// is given. Nobody may have the file open before.
class LeasedFile {
 public:
  explicit LeasedFile(const std::string& path) : fd_(open(path.c_str(), O_RDWR | O_CLOEXEC)) {
    EXPECT_EQ(fcntl(fd_.get(), F_SETLEASE, F_WRLCK), 0) << strerror(errno);
  }
  ~LeasedFile() {
    fcntl(fd_.get(), F_SETLEASE, F_UNLCK);
    signal(SIGIO, before_);
  }
  LeasedFile(const LeasedFile&) = delete;
  LeasedFile& operator=(const LeasedFile&) = delete;

 private:
  // The holder of a file lease receives this signal.
  void (*const before_)(int) = signal(SIGIO, SIG_IGN);
  Fd fd_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_SERVER_STALLED_FILE_FOR_TEST_H_
