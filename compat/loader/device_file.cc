// Files that are elsewhere, or not there, for those who look. Preloaded by `pollux run`.
//
// The device's character file, which is nowhere: programs that look for it before they open the
// device (UCX) find one that is there for everybody.
//
// The folder of DPDK's drivers, which are more than a hundred: EAL loads all of them, in a tenth of
// a second and with 17 MB that stay, unless the folder is not there.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "compat/loader/export.h"

namespace {

std::atomic<const char*> hidden_folder{nullptr};

bool IsHidden(const char* path) {
  const char* const hidden = hidden_folder.load(std::memory_order_relaxed);
  return hidden != nullptr && path != nullptr && std::strcmp(path, hidden) == 0;
}

const char* There(const char* path) {
  constexpr char kDeviceFile[] = "/dev/infiniband/uverbs_pollux0";
  return path != nullptr && std::strcmp(path, kDeviceFile) == 0 ? "/dev/null" : path;
}

}  // namespace

POLLUX_EXPORT void pollux_hide_folder(const char* path) { hidden_folder.store(path); }

POLLUX_EXPORT int stat(const char* path, struct stat* status) noexcept {
  if (IsHidden(path)) {
    errno = ENOENT;
    return -1;
  }
  return fstatat(AT_FDCWD, There(path), status, 0);
}

// EAL's, which is compiled for large files.
POLLUX_EXPORT int stat64(const char* path, struct stat64* status) noexcept {
  if (IsHidden(path)) {
    errno = ENOENT;
    return -1;
  }
  return fstatat64(AT_FDCWD, There(path), status, 0);
}

POLLUX_EXPORT int access(const char* path, int mode) noexcept {
  return faccessat(AT_FDCWD, There(path), mode, 0);
}
