#include "tools/file_service/file_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace pollux::tools {
namespace {

absl::Status Failure(const std::string& what) {
  const int error = errno;
  if (error == EXDEV || error == ELOOP) {
    return absl::PermissionDeniedError(
        absl::StrCat(what, ": leads out of the served directory, or through a symbolic link"));
  }
  return absl::ErrnoToStatus(error, what);
}

// `what`: for the error.
absl::StatusOr<size_t> ReadAll(int fd, const std::string& what, uint64_t offset,
                               absl::Span<uint8_t> buffer) {
  size_t done = 0;
  while (done < buffer.size()) {
    const ssize_t n =
        pread(fd, buffer.data() + done, buffer.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Failure(what);
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileStore>> FileStore::Open(const std::string& root) {
  const int fd = open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return Failure(absl::StrCat("directory ", root));
  return std::unique_ptr<FileStore>(new FileStore(fd));
}

FileStore::~FileStore() {
  DropCached();
  close(root_);
}

absl::StatusOr<int> FileStore::OpenBeneath(const std::string& name, int flags,
                                           unsigned mode) const {
  // What follows a NUL is ignored, as by the kernel, which must not see another name than this
  // check.
  const std::string path = name.c_str();
  std::vector<std::string> components = absl::StrSplit(path, '/', absl::SkipEmpty());
  if (path.starts_with('/') || std::ranges::count(components, "..") != 0) {
    errno = EXDEV;
    return Failure(name);
  }
  if (components.empty()) components.push_back(path);     // for ENOENT
  if (path.ends_with('/')) components.emplace_back(".");  // an error unless a directory
  // Not by RESOLVE_BENEATH: systemd's DynamicUser= implies RestrictSUIDSGID=, which forbids
  // openat2(2).
  int above = root_;
  const auto close_above = [&] {
    if (above != root_) close(above);
  };
  const absl::Cleanup close_last = close_above;
  for (size_t i = 0; i + 1 < components.size(); ++i) {
    const int below =
        openat(above, components[i].c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (below < 0) {
      struct stat st;
      if (errno == ENOTDIR &&
          fstatat(above, components[i].c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0) {
        errno = S_ISLNK(st.st_mode) ? ELOOP : ENOTDIR;
      }
      return Failure(name);
    }
    close_above();
    above = below;
  }
  flags |= O_NOFOLLOW | O_CLOEXEC;
  if ((flags & O_PATH) == 0) flags |= O_NOCTTY | O_NONBLOCK;  // no waiting for a FIFO's other end
  const int fd = openat(above, components.back().c_str(), flags, mode);
  if (fd < 0) return Failure(name);
  return fd;
}

absl::StatusOr<FileStore::Attributes> FileStore::Stat(const std::string& name) const {
  absl::StatusOr<int> fd = OpenBeneath(name, O_PATH, 0);
  if (!fd.ok()) return fd.status();
  const absl::Cleanup close_fd = [fd = *fd] { close(fd); };
  struct stat st;
  if (fstat(*fd, &st) != 0) return Failure(name);
  if (S_ISLNK(st.st_mode)) {
    errno = ELOOP;
    return Failure(name);
  }
  if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(name, ": not a regular file"));
  }
  return Attributes{.size = static_cast<uint64_t>(st.st_size),
                    .modified_ns = static_cast<uint64_t>(st.st_mtim.tv_sec) * 1'000'000'000 +
                                   static_cast<uint64_t>(st.st_mtim.tv_nsec),
                    .directory = S_ISDIR(st.st_mode)};
}

// Whether the name still leads to the file that is open: another may have taken its place.
bool FileStore::IsCached(const std::string& name) const {
  if (cached_ < 0 || cached_name_ != name) return false;
  struct stat open, now;
  return fstat(cached_, &open) == 0 &&
         fstatat(root_, name.c_str(), &now, AT_SYMLINK_NOFOLLOW) == 0 &&
         open.st_dev == now.st_dev && open.st_ino == now.st_ino;
}

void FileStore::DropCached() {
  if (cached_ >= 0) close(cached_);
  cached_ = -1;
}

// Opens a regular file, or takes the one that is open already.
absl::StatusOr<int> FileStore::Cached(const std::string& name, bool write) {
  if (IsCached(name) && (cached_write_ || !write)) return cached_;
  DropCached();
  absl::StatusOr<int> fd = OpenBeneath(name, write ? O_RDWR : O_RDONLY, 0);
  if (!fd.ok()) return fd;
  struct stat st;
  if (fstat(*fd, &st) != 0 || !S_ISREG(st.st_mode)) {
    close(*fd);
    return absl::FailedPreconditionError(absl::StrCat(name, ": not a regular file"));
  }
  cached_ = *fd;
  cached_name_ = name;
  cached_write_ = write;
  return cached_;
}

absl::StatusOr<size_t> FileStore::Read(const std::string& name, uint64_t offset,
                                       absl::Span<uint8_t> buffer) {
  absl::StatusOr<int> fd = Cached(name, false);
  if (!fd.ok()) return fd.status();
  return ReadAll(*fd, name, offset, buffer);
}

absl::StatusOr<FileStore::Reader> FileStore::OpenReader(const std::string& name) {
  absl::StatusOr<int> fd = Cached(name, false);
  if (!fd.ok()) return fd.status();
  // The one that is cached gives way to the next name.
  const int own = fcntl(*fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return Failure(name);
  return Reader(own);
}

FileStore::Reader::~Reader() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<size_t> FileStore::Reader::Read(uint64_t offset, absl::Span<uint8_t> buffer) {
  return ReadAll(fd_, "a file", offset, buffer);
}

absl::Status FileStore::Create(const std::string& name) {
  absl::StatusOr<int> fd = OpenBeneath(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (!fd.ok()) return fd.status();
  close(*fd);
  return absl::OkStatus();
}

absl::Status FileStore::Write(const std::string& name, uint64_t offset,
                              absl::Span<const uint8_t> data) {
  absl::StatusOr<int> fd = Cached(name, true);
  if (!fd.ok()) return fd.status();
  size_t done = 0;
  while (done < data.size()) {
    const ssize_t n =
        pwrite(*fd, data.data() + done, data.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Failure(name);
    done += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

// Reads the root's names anew when it has changed: pages of one listing share one reading.
absl::Status FileStore::ReadNames() {
  struct stat st;
  if (fstat(root_, &st) != 0) return Failure(".");
  const auto same = [](const timespec& a, const timespec& b) {
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
  };
  // A change within the same tick of the clock leaves no trace: a young reading is not trusted.
  timespec now;
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  if (names_read_ && names_settled_ && same(st.st_mtim, names_changed_)) return absl::OkStatus();
  const int fd = openat(root_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* directory = fd < 0 ? nullptr : fdopendir(fd);
  if (directory == nullptr) return Failure(".");
  const absl::Cleanup close_directory = [directory] { closedir(directory); };
  names_.clear();
  while (const dirent* entry = readdir(directory)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names_.push_back(name);
  }
  std::sort(names_.begin(), names_.end());
  names_changed_ = st.st_mtim;
  names_settled_ = now.tv_sec > st.st_mtim.tv_sec + 1;
  names_read_ = true;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<FileStore::Entry>> FileStore::List(const std::string& after,
                                                              size_t limit) {
  if (absl::Status status = ReadNames(); !status.ok()) return status;
  std::vector<Entry> entries;
  for (auto name = std::upper_bound(names_.begin(), names_.end(), after);
       name != names_.end() && entries.size() < limit; ++name) {
    struct stat st;
    if (fstatat(root_, name->c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) continue;  // gone meanwhile
    entries.push_back({.name = *name,
                       .size = static_cast<uint64_t>(st.st_size),
                       .directory = S_ISDIR(st.st_mode)});
  }
  return entries;
}

}  // namespace pollux::tools
