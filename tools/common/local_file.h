// The local end of a file transfer: the source or destination file.
#ifndef POLLUX_TOOLS_COMMON_LOCAL_FILE_H_
#define POLLUX_TOOLS_COMMON_LOCAL_FILE_H_

#include <time.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace pollux::tools {

// An open regular file.
class SourceFile {
 public:
  // Errors are in status(): those of open(2); InvalidArgument if it is not a regular file.
  explicit SourceFile(const std::string& path);
  ~SourceFile();
  SourceFile(const SourceFile&) = delete;
  SourceFile& operator=(const SourceFile&) = delete;

  const absl::Status& status() const { return status_; }
  int fd() const { return fd_; }
  uint64_t bytes() const { return bytes_; }
  uint32_t mode() const { return mode_; }  // permission bits: 0777

  // Aborted if the file's size or modification time is not what it was when the file was opened.
  absl::Status CheckUnchanged() const;

 private:
  const std::string path_;
  int fd_;
  uint64_t bytes_ = 0;
  uint32_t mode_ = 0;
  timespec modified_{};
  absl::Status status_;
};

// A file that is written under a temporary name and renamed when it is complete. If it is not
// completed, it is removed; an existing file is kept until then.
class DestinationFile {
 public:
  // Errors are in status(): those of open(2); InvalidArgument if `path` exists and is not a regular
  // file.
  explicit DestinationFile(const std::string& path);
  ~DestinationFile();
  DestinationFile(const DestinationFile&) = delete;
  DestinationFile& operator=(const DestinationFile&) = delete;

  const absl::Status& status() const { return status_; }
  int fd() const { return fd_; }

  // Stores the file on stable storage and renames it. Call it once.
  absl::Status Complete();

 private:
  std::string path_;
  std::string temporary_;  // empty if there is none
  int fd_ = -1;
  absl::Status status_;
};

// Read or write a whole block. Errors are those of the file system; Aborted if the file ends before
// the block does.
absl::Status ReadBlock(int fd, uint64_t offset, absl::Span<uint8_t> block);
absl::Status WriteBlock(int fd, uint64_t offset, absl::Span<const uint8_t> block);

// The SHA-256 digest of the first `bytes` of a file, in hexadecimal. Errors as ReadBlock().
absl::StatusOr<std::string> Sha256OfFile(int fd, uint64_t bytes);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_LOCAL_FILE_H_
