#include "compat/runtime/frame_signal.h"

#include <fcntl.h>
#include <signal.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace pollux::compat {
namespace {

constexpr char kTunDevice[] = "/dev/net/tun";

// The signal that a descriptor's readiness sends; 0: none of its own.
int SignalOf(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_ASYNC) != 0 ? fcntl(fd, F_GETSIG) : 0;
}

}  // namespace

FrameSignal FrameSignal::TakeOver() {
  FrameSignal taken;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    if (std::filesystem::read_symlink(entry.path(), error) != kTunDevice) continue;
    const int fd = std::stoi(entry.path().filename());
    const int number = SignalOf(fd);
    if (number <= 0) continue;
    struct sigaction action {};
    if (sigaction(number, nullptr, &action) != 0 || (action.sa_flags & SA_SIGINFO) != 0 ||
        action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) {
      continue;
    }
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_ASYNC);
    taken.handler_ = action.sa_handler;
    taken.number_ = number;
  }
  return taken;
}

}  // namespace pollux::compat
