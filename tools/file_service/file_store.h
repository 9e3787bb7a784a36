// The files that a server gives out: one directory, and no way out of it.
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

// Names are single components or relative paths below the root; the kernel resolves them with
// RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS, so that neither "..", an absolute path nor a symbolic
// link leads out. Calls block on the file system. Errors bear the errno's code and text.
class FileStore {
 public:
  // NotFound or PermissionDenied when `root` is no directory that can be read.
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
  // One file to be read piece by piece: the same all the time, whatever becomes of its name.
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
  // Creates an empty file, or empties the one there is.
  absl::Status Create(const std::string& name);
  // Writes all of it, into a file that exists.
  absl::Status Write(const std::string& name, uint64_t offset, absl::Span<const uint8_t> data);
  // Entries of the root, by name, those after `after` ("" for the first), at most `limit`.
  absl::StatusOr<std::vector<Entry>> List(const std::string& after, size_t limit);

 private:
  explicit FileStore(int root) : root_(root) {}
  absl::StatusOr<int> OpenBeneath(const std::string& name, int flags, unsigned mode) const;
  bool IsCached(const std::string& name) const;
  absl::StatusOr<int> Cached(const std::string& name, bool write);
  void DropCached();
  absl::Status ReadNames();

  int root_;
  // The file used last stays open: bulk transfers name the same one again and again.
  std::string cached_name_;
  bool cached_write_ = false;
  int cached_ = -1;
  // The root's entries, sorted, as they were when it had last changed at names_changed_.
  std::vector<std::string> names_;
  bool names_read_ = false;
  bool names_settled_ = false;
  timespec names_changed_{};
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_FILE_SERVICE_FILE_STORE_H_
