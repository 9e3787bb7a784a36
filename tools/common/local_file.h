// The local end of a transfer: the file that is sent, the file that comes.
#ifndef POLLUX_TOOLS_COMMON_LOCAL_FILE_H_
#define POLLUX_TOOLS_COMMON_LOCAL_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace pollux::tools {

// An open regular file.
class SourceFile {
 public:
  // Errors, in status(): what open() says; InvalidArgument for what is no regular file.
  explicit SourceFile(const std::string& path);
  ~SourceFile();
  SourceFile(const SourceFile&) = delete;
  SourceFile& operator=(const SourceFile&) = delete;

  const absl::Status& status() const { return status_; }
  int fd() const { return fd_; }
  uint64_t bytes() const { return bytes_; }
  uint32_t mode() const { return mode_; }  // permission bits: 0777

 private:
  int fd_;
  uint64_t bytes_ = 0;
  uint32_t mode_ = 0;
  absl::Status status_;
};

// A file under a temporary name that takes its place when it is complete, and goes without a trace
// when it is not: what was there stays until all of the new has come.
class DestinationFile {
 public:
  // Errors, in status(): what open() says; InvalidArgument when `path` is no regular file.
  explicit DestinationFile(const std::string& path);
  ~DestinationFile();
  DestinationFile(const DestinationFile&) = delete;
  DestinationFile& operator=(const DestinationFile&) = delete;

  const absl::Status& status() const { return status_; }
  int fd() const { return fd_; }

  // Once.
  absl::Status Complete();

 private:
  std::string path_;
  std::string temporary_;  // empty when there is none
  int fd_ = -1;
  absl::Status status_;
};

// A block of a file, all of it. Errors: what the system says; Aborted when the file ends before.
absl::Status ReadBlock(int fd, uint64_t offset, absl::Span<uint8_t> block);
absl::Status WriteBlock(int fd, uint64_t offset, absl::Span<const uint8_t> block);

// Of the first `bytes` of a file, hexadecimal. Errors as ReadBlock().
absl::StatusOr<std::string> Sha256OfFile(int fd, uint64_t bytes);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_LOCAL_FILE_H_
