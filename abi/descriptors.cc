#include "abi/descriptors.h"

#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/numbers.h"

namespace pollux::abi {
namespace {

// In order. Empty without /proc: nothing is known then, and nothing is changed.
std::vector<int> OpenDescriptors() {
  std::vector<int> open;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    int fd;
    if (absl::SimpleAtoi(entry.path().filename().string(), &fd)) open.push_back(fd);
  }
  // The listing's own is closed by now.
  std::erase_if(open, [](int fd) { return fcntl(fd, F_GETFD) < 0; });
  std::ranges::sort(open);
  return open;
}

}  // namespace

NewDescriptors::NewDescriptors() : before_(OpenDescriptors()) {}

void NewDescriptors::CloseOnExec() const {
  for (const int fd : OpenDescriptors()) {
    if (std::ranges::binary_search(before_, fd)) continue;
    const int flags = fcntl(fd, F_GETFD);
    if (flags >= 0) fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
  }
}

}  // namespace pollux::abi
