// The files of a server: one directory, which requests cannot leave.
#ifndef POLLUX_TOOLS_FILE_SERVICE_FILE_STORE_H_
#define POLLUX_TOOLS_FILE_SERVICE_FILE_STORE_H_

#include <time.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace pollux::tools {

// Names are single components or relative paths below the root. Absolute paths, ".." and symbolic
// links are refused, so that no name leads out of it. Calls block on the file system. Errors have
// the code and text of the errno.
class FileStore {
 public:
  // NotFound or PermissionDenied if `root` is not a readable directory.
  static absl::StatusOr<std::unique_ptr<FileStore>> Open(const std::string& root);
  ~FileStore();
  FileStore(const FileStore&) = delete;
  FileStore& operator=(const FileStore&) = delete;

  struct Attributes {
    uint64_t size = 0;
    uint64_t modified_ns = 0;
    bool directory = false;
  };
  struct Entry {
    std::string name;
    uint64_t size = 0;
    bool directory = false;
  };

  absl::StatusOr<Attributes> Stat(const std::string& name) const;
  // Reads up to buffer.size() bytes; fewer only at the end of the file.
  absl::StatusOr<size_t> Read(const std::string& name, uint64_t offset, absl::Span<uint8_t> buffer);
  // Reads one file in pieces, even if it is renamed or removed meanwhile.
  class Reader {
   public:
    Reader() = default;
    Reader(Reader&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Reader& operator=(Reader&& other) noexcept {
      std::swap(fd_, other.fd_);
      return *this;
    }
    ~Reader();
    // As FileStore::Read.
    absl::StatusOr<size_t> Read(uint64_t offset, absl::Span<uint8_t> buffer);

   private:
    friend class FileStore;
    explicit Reader(int fd) : fd_(fd) {}
    int fd_ = -1;
  };
  absl::StatusOr<Reader> OpenReader(const std::string& name);
  // Creates an empty file, or truncates an existing one.
  absl::Status Create(const std::string& name);
  // Writes all of `data` to an existing file.
  absl::Status Write(const std::string& name, uint64_t offset, absl::Span<const uint8_t> data);
  // Returns at most `limit` entries of the root, sorted by name, that come after `after` ("" for
  // the first ones).
  absl::StatusOr<std::vector<Entry>> List(const std::string& after, size_t limit);

 private:
  explicit FileStore(int root) : root_(root) {}
  absl::StatusOr<int> OpenBeneath(const std::string& name, int flags, unsigned mode) const;
  bool IsCached(const std::string& name) const;
  absl::StatusOr<int> Cached(const std::string& name, bool write);
  void DropCached();
  absl::Status ReadNames();

  int root_;
  // The file used last remains open, because all calls of a bulk transfer use the same file.
  std::string cached_name_;
  bool cached_write_ = false;
  int cached_ = -1;
  // The root's entries, sorted, as of its last change at names_changed_.
  std::vector<std::string> names_;
  bool names_read_ = false;
  bool names_settled_ = false;
  timespec names_changed_{};
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_FILE_SERVICE_FILE_STORE_H_
