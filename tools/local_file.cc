#include "tools/local_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "absl/strings/str_cat.h"

namespace pollux::tools {
namespace {

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
    : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  struct stat st;
  if (fd_ < 0 || fstat(fd_, &st) != 0) {
    status_ = absl::ErrnoToStatus(errno, absl::StrCat("file ", path));
  } else if (!S_ISREG(st.st_mode)) {
    status_ = NotRegular(path);
  } else {
    bytes_ = static_cast<uint64_t>(st.st_size);
    char first;
    if (bytes_ == 0 && pread(fd_, &first, 1, 0) > 0) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat(path, " does not tell its size (a file of /proc?); copy it first"));
    }
  }
}

SourceFile::~SourceFile() {
  if (fd_ >= 0) close(fd_);
}

DestinationFile::DestinationFile(const std::string& path) : path_(path) {
  struct stat st;
  const bool exists = stat(path.c_str(), &st) == 0;
  if (exists && !S_ISREG(st.st_mode)) {
    status_ = NotRegular(path);
    return;
  }
  std::error_code unresolved;
  // A symbolic link stays one: what it points to is replaced.
  if (exists) path_ = std::filesystem::canonical(path, unresolved).string();
  std::string temporary = absl::StrCat(path_, ".XXXXXX");
  fd_ = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd_ < 0) {
    status_ = absl::ErrnoToStatus(errno, absl::StrCat("file ", path));
    return;
  }
  temporary_ = std::move(temporary);
  if (fchmod(fd_, exists ? st.st_mode & 07777 : NewFileMode()) != 0) {
    status_ = absl::ErrnoToStatus(errno, absl::StrCat("file ", temporary_));
  }
}

DestinationFile::~DestinationFile() {
  if (fd_ >= 0) close(fd_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

absl::Status DestinationFile::Complete() {
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("file ", path_));
  }
  temporary_.clear();
  return absl::OkStatus();
}

}  // namespace pollux::tools
