// A file descriptor that is closed by its destructor.
#ifndef POLLUX_STACK_BASE_FD_H_
#define POLLUX_STACK_BASE_FD_H_

#include <unistd.h>

#include <utility>

namespace pollux {

class Fd {
 public:
  static constexpr int kNone = -1;

  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, kNone)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() {
    if (fd_ != kNone) close(fd_);
  }

  bool ok() const { return fd_ != kNone; }
  int get() const { return fd_; }

 private:
  int fd_ = kNone;
};

}  // namespace pollux

#endif  // POLLUX_STACK_BASE_FD_H_
