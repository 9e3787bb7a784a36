#include "nfs/export/export_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "nfs/v3/errno_status.h"

namespace pollux::nfs {
namespace {

// A file_handle with room for what fits a client's.
struct HandleSpace {
  alignas(file_handle) std::array<uint8_t, sizeof(file_handle) + KernelHandle::kMaxBytes> bytes{};
  file_handle* get() { return reinterpret_cast<file_handle*>(bytes.data()); }
};

bool ReadHandle(const Fd& object, KernelHandle* kernel) {
  HandleSpace space;
  space.get()->handle_bytes = KernelHandle::kMaxBytes;
  int mount_id = 0;
  if (name_to_handle_at(object.get(), "", space.get(), &mount_id, AT_EMPTY_PATH) != 0) return false;
  kernel->type = space.get()->handle_type;
  kernel->size = static_cast<uint8_t>(space.get()->handle_bytes);
  std::copy_n(space.get()->f_handle, kernel->size, kernel->bytes.begin());
  return true;
}

Fd OpenBeneath(const Fd& directory, std::string_view relative, uint64_t resolve) {
  const std::string path(relative);
  open_how how = {};
  how.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
  how.resolve = resolve;
  return Fd(
      static_cast<int>(syscall(SYS_openat2, directory.get(), path.c_str(), &how, sizeof(how))));
}

// Of a file that is reached by its handle alone: the kernel has forgotten its name.
constexpr char kNowhere[] = "/";

// What the kernel adds to the path of a name that was removed.
constexpr std::string_view kRemoved = " (deleted)";

// A directory may be so many levels below one that has a path. Each costs a system call.
constexpr int kMaxClimb = 4096;

// How often Walk() tries. Resolving ".." fails with EAGAIN if a rename or mount anywhere on the
// host comes in between.
constexpr int kMaxWalks = 32;

// Where the kernel sees it, in this process's mount namespace; empty when its path is longer than
// PATH_MAX.
std::string PathOf(const Fd& object) {
  std::array<char, PATH_MAX> path;
  const ssize_t size =
      readlink(absl::StrCat("/proc/self/fd/", object.get()).c_str(), path.data(), path.size());
  return size <= 0 ? "" : std::string(path.data(), static_cast<size_t>(size));
}

}  // namespace

ExportTree::ExportTree(const Export& exported, const HandleKey& key, Fd root)
    : exported_(exported),
      key_(key),
      id_(key.ExportId(exported.directory)),
      root_(std::move(root)) {}

absl::StatusOr<std::unique_ptr<ExportTree>> ExportTree::Open(const Export& exported,
                                                             const HandleKey& key) {
  Fd root(open(exported.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat attributes;
  if (!root.ok() || fstat(root.get(), &attributes) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("export ", exported.directory));
  }
  std::unique_ptr<ExportTree> tree(new ExportTree(exported, key, std::move(root)));
  tree->device_ = attributes.st_dev;
  tree->inode_ = attributes.st_ino;
  const std::optional<NfsFh3> handle = tree->HandleOf(tree->root_);
  Fd again;
  if (!handle.has_value() || tree->Find(handle->span(), &again) != Nfsstat3::kOk) {
    return absl::FailedPreconditionError(absl::StrCat(
        "export ", exported.directory,
        ": no file handles are available (name_to_handle_at, open_by_handle_at: ",
        std::strerror(errno),
        "); they need root and a file system that has them, such as ext4, xfs, tmpfs"));
  }
  return tree;
}

bool ExportTree::IsBelow(const std::string& path) const {
  const std::string root = PathOf(root_);
  if (root.empty() || path.size() < root.size() || path.compare(0, root.size(), root) != 0) {
    return false;
  }
  return path.size() == root.size() || root == "/" || path[root.size()] == '/';
}

// One that is too deep to have a path is where the nearest above it is that has one.
bool ExportTree::HasInside(const Fd& directory) const {
  std::string path = PathOf(directory);
  Fd above;
  for (int level = 0; path.empty() && level < kMaxClimb; ++level) {
    above =
        OpenBeneath(level == 0 ? directory : above, "..", RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
    if (!above.ok()) return false;
    path = PathOf(above);
  }
  return IsBelow(path);
}

bool ExportTree::IsOutside(const Fd& object, const struct stat& attributes) const {
  if (S_ISDIR(attributes.st_mode)) return !HasInside(object);
  const std::string path = PathOf(object);
  if (attributes.st_nlink != 1 || path.empty() || path == kNowhere || IsBelow(path)) return false;
  if (!path.ends_with(kRemoved)) return true;
  // The kernel reports any name that it knows, even a removed one by which a process still has the
  // file open. Such a name does not say where the file is now.
  struct stat there;
  return lstat(path.c_str(), &there) == 0 && there.st_dev == attributes.st_dev &&
         there.st_ino == attributes.st_ino;
}

bool ExportTree::IsOfAnother(absl::Span<const uint8_t> handle) const {
  const std::optional<OpenedHandle> opened = key_.Open(handle);
  return opened.has_value() && opened->export_id != id_;
}

Nfsstat3 ExportTree::Find(absl::Span<const uint8_t> handle, Fd* object) const {
  const std::optional<OpenedHandle> opened = key_.Open(handle);
  if (!opened.has_value()) return Nfsstat3::kBadhandle;
  if (opened->export_id != id_) return Nfsstat3::kStale;
  HandleSpace space;
  space.get()->handle_bytes = opened->kernel.size;
  space.get()->handle_type = opened->kernel.type;
  std::copy_n(opened->kernel.bytes.begin(), opened->kernel.size, space.get()->f_handle);
  *object = Fd(open_by_handle_at(root_.get(), space.get(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat attributes;
  if (!object->ok() || fstat(object->get(), &attributes) != 0) {
    return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? Nfsstat3::kJukebox
                                                                 : Nfsstat3::kStale;
  }
  return IsOutside(*object, attributes) ? Nfsstat3::kStale : Nfsstat3::kOk;
}

Nfsstat3 ExportTree::FindDirectory(absl::Span<const uint8_t> handle, Fd* directory) const {
  if (const Nfsstat3 status = Find(handle, directory); status != Nfsstat3::kOk) return status;
  struct stat attributes;
  if (fstat(directory->get(), &attributes) != 0) return StatusOfErrno(errno);
  return S_ISDIR(attributes.st_mode) ? Nfsstat3::kOk : Nfsstat3::kNotdir;
}

Nfsstat3 ExportTree::Lookup(const Fd& directory, std::string_view name, Fd* object) const {
  if (const Nfsstat3 status = CheckName(name); status != Nfsstat3::kOk) return status;
  struct stat attributes;
  if (fstat(directory.get(), &attributes) != 0) return StatusOfErrno(errno);
  // ".." leads up: that it stays inside is looked at afterwards.
  const bool up = name == ".." && !IsRoot(attributes);
  const std::string_view component = name == ".." && !up ? "." : name;
  *object = OpenBeneath(directory, component,
                        RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV | (up ? 0 : RESOLVE_BENEATH));
  if (!object->ok()) return StatusOfErrno(errno);
  if (up && !HasInside(*object)) return Nfsstat3::kStale;
  return Nfsstat3::kOk;
}

Nfsstat3 ExportTree::Walk(std::string_view path, Fd* object) const {
  while (!path.empty() && path.front() == '/') path.remove_prefix(1);
  for (int i = 0; i < kMaxWalks; ++i) {
    *object = OpenBeneath(root_, path.empty() ? "." : path,
                          RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV | RESOLVE_BENEATH);
    if (object->ok() || errno != EAGAIN) break;
  }
  return object->ok() ? Nfsstat3::kOk : StatusOfErrno(errno);
}

std::optional<NfsFh3> ExportTree::HandleOf(const Fd& object) const {
  KernelHandle kernel;
  if (!ReadHandle(object, &kernel)) return std::nullopt;
  return NfsFh3::From(key_.Seal(id_, kernel).view());
}

}  // namespace pollux::nfs
