// The device's character file, which is nowhere: programs that look for it before they open the
// device (UCX) find one that is there for everybody. Preloaded by `pollux run`.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "compat/loader/export.h"

namespace {

const char* There(const char* path) {
  constexpr char kDeviceFile[] = "/dev/infiniband/uverbs_pollux0";
  return path != nullptr && std::strcmp(path, kDeviceFile) == 0 ? "/dev/null" : path;
}

// Both structures have the same layout.
static_assert(sizeof(struct stat) == sizeof(struct stat64));

int StatThere(const char* path, void* status, int flags) {
  return fstatat(AT_FDCWD, There(path), static_cast<struct stat*>(status), flags);
}

}  // namespace

POLLUX_EXPORT int stat(const char* path, struct stat* status) noexcept {
  return StatThere(path, status, 0);
}

POLLUX_EXPORT int stat64(const char* path, struct stat64* status) noexcept {
  return StatThere(path, status, 0);
}

POLLUX_EXPORT int lstat(const char* path, struct stat* status) noexcept {
  return StatThere(path, status, AT_SYMLINK_NOFOLLOW);
}

POLLUX_EXPORT int lstat64(const char* path, struct stat64* status) noexcept {
  return StatThere(path, status, AT_SYMLINK_NOFOLLOW);
}

// Programs that were compiled with a glibc before 2.33 call these. The version of the structure
// never changed on a 64-bit machine.

POLLUX_EXPORT int __xstat(int /*version*/, const char* path, struct stat* status) noexcept {
  return StatThere(path, status, 0);
}

POLLUX_EXPORT int __xstat64(int /*version*/, const char* path, struct stat64* status) noexcept {
  return StatThere(path, status, 0);
}

POLLUX_EXPORT int __lxstat(int /*version*/, const char* path, struct stat* status) noexcept {
  return StatThere(path, status, AT_SYMLINK_NOFOLLOW);
}

POLLUX_EXPORT int __lxstat64(int /*version*/, const char* path, struct stat64* status) noexcept {
  return StatThere(path, status, AT_SYMLINK_NOFOLLOW);
}

POLLUX_EXPORT int access(const char* path, int mode) noexcept {
  return faccessat(AT_FDCWD, There(path), mode, 0);
}
