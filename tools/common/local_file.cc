#include "tools/common/local_file.h"

#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace pollux::tools {
namespace {

constexpr size_t kHashedAtOnce = 1 << 20;  // bytes

absl::Status NotRegular(const std::string& path) {
  return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
}

// As open() would give it; the mask can only be read by setting it.
mode_t NewFileMode() {
  const mode_t mask = umask(022);
  umask(mask);
  return 0666 & ~mask;
}

}  // namespace

// Nonblocking, so that a pipe is refused and not waited for.
SourceFile::SourceFile(const std::string& path)
    : path_(path), fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  struct stat st;
  if (fd_ < 0 || fstat(fd_, &st) != 0) {
    status_ = absl::ErrnoToStatus(errno, absl::StrCat("file ", path));
  } else if (!S_ISREG(st.st_mode)) {
    status_ = NotRegular(path);
  } else {
    bytes_ = static_cast<uint64_t>(st.st_size);
    mode_ = st.st_mode & 0777;
    modified_ = st.st_mtim;
    char first;
    if (bytes_ == 0 && pread(fd_, &first, 1, 0) > 0) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat(path, " has no known size (a file of /proc?); copy it first"));
    }
  }
}

SourceFile::~SourceFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status SourceFile::CheckUnchanged() const {
  struct stat st;
  if (fstat(fd_, &st) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("file ", path_));
  if (static_cast<uint64_t>(st.st_size) == bytes_ && st.st_mtim.tv_sec == modified_.tv_sec &&
      st.st_mtim.tv_nsec == modified_.tv_nsec) {
    return absl::OkStatus();
  }
  return absl::AbortedError(absl::StrCat(path_, ": the file changed while it was sent"));
}

DestinationFile::DestinationFile(const std::string& path) : path_(path) {
  struct stat st;
  const bool exists = stat(path.c_str(), &st) == 0;
  if (exists && !S_ISREG(st.st_mode)) {
    status_ = NotRegular(path);
    return;
  }
  // Otherwise only rename() would report it, after the transfer.
  if (!exists && errno == ENAMETOOLONG) {
    status_ = absl::ErrnoToStatus(errno, absl::StrCat("file ", path));
    return;
  }
  std::error_code unresolved;
  // A symbolic link stays one: what it points to is replaced.
  if (exists) path_ = std::filesystem::canonical(path, unresolved).string();
  // The length does not depend on the file's name, which may already have the most bytes possible.
  std::string temporary = absl::StrCat(path_.substr(0, path_.rfind('/') + 1), ".pollux-XXXXXX");
  fd_ = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd_ < 0) {
    status_ = absl::ErrnoToStatus(errno, absl::StrCat("file ", path));
    return;
  }
  temporary_ = std::move(temporary);
  mode_t mode = NewFileMode();
  if (exists) {
    // Set-user-ID and set-group-ID bits must not pass to another owner.
    const bool same_owner = fchown(fd_, st.st_uid, st.st_gid) == 0;
    mode = st.st_mode & (same_owner ? 07777 : 0777);
  }
  if (fchmod(fd_, mode) != 0) {
    status_ = absl::ErrnoToStatus(errno, absl::StrCat("file ", temporary_));
  }
}

DestinationFile::~DestinationFile() {
  if (fd_ >= 0) close(fd_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

absl::Status DestinationFile::Complete() {
  // File systems of other hosts, and those with quotas, report some errors only now.
  if (fsync(fd_) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("storing file ", path_));
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("file ", path_));
  }
  temporary_.clear();
  return absl::OkStatus();
}

absl::Status ReadBlock(int fd, uint64_t offset, absl::Span<uint8_t> block) {
  const ssize_t n = pread(fd, block.data(), block.size(), static_cast<off_t>(offset));
  if (n < 0) return absl::ErrnoToStatus(errno, "reading the local file");
  return n == static_cast<ssize_t>(block.size())
             ? absl::OkStatus()
             : absl::AbortedError("the local file was truncated");
}

absl::Status WriteBlock(int fd, uint64_t offset, absl::Span<const uint8_t> block) {
  const ssize_t n = pwrite(fd, block.data(), block.size(), static_cast<off_t>(offset));
  if (n >= 0 && n < static_cast<ssize_t>(block.size())) errno = ENOSPC;
  return n == static_cast<ssize_t>(block.size())
             ? absl::OkStatus()
             : absl::ErrnoToStatus(errno, "writing the local file");
}

absl::StatusOr<std::string> Sha256OfFile(int fd, uint64_t bytes) {
  crypto_hash_sha256_state state;
  crypto_hash_sha256_init(&state);
  std::vector<uint8_t> buffer(kHashedAtOnce);
  for (uint64_t offset = 0; offset < bytes; offset += buffer.size()) {
    buffer.resize(std::min<uint64_t>(kHashedAtOnce, bytes - offset));
    const absl::Status read = ReadBlock(fd, offset, absl::MakeSpan(buffer));
    if (!read.ok()) return read;
    crypto_hash_sha256_update(&state, buffer.data(), buffer.size());
  }
  uint8_t digest[crypto_hash_sha256_BYTES];
  crypto_hash_sha256_final(&state, digest);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), sizeof digest));
}

}  // namespace pollux::tools
