// The file handles that clients have. Each contains the file system's handle, which survives a
// restart, and is sealed with a key, so that a client cannot forge handles. RFC 1813 section 2.3.3
#ifndef POLLUX_NFS_EXPORT_FILE_HANDLE_H_
#define POLLUX_NFS_EXPORT_FILE_HANDLE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace pollux::nfs {

// A file system's handle of an inode: name_to_handle_at(2).
struct KernelHandle {
  static constexpr size_t kMaxBytes = 36;
  int32_t type = 0;
  uint8_t size = 0;
  std::array<uint8_t, kMaxBytes> bytes{};
  absl::Span<const uint8_t> view() const { return {bytes.data(), size}; }
};

// The format is: version (1 byte), size of the handle of the kernel (1), zero (2), type of the
// handle of the kernel (4), export (8), seal of all other bytes (12), the handle of the kernel.
// Integers are big-endian.
class FileHandle {
 public:
  static constexpr size_t kMaxBytes = 64;  // NFS3_FHSIZE
  absl::Span<const uint8_t> view() const { return {bytes_.data(), size_}; }

 private:
  friend class HandleKey;
  std::array<uint8_t, kMaxBytes> bytes_{};
  size_t size_ = 0;
};

struct OpenedHandle {
  uint64_t export_id = 0;
  KernelHandle kernel;
};

// Immutable and thread-safe.
class HandleKey {
 public:
  static constexpr size_t kBytes = 32;

  explicit HandleKey(const std::array<uint8_t, kBytes>& key) : key_(key) {}
  // Reads the key from a file, or creates the file with a random key if it does not exist.
  // PermissionDenied if others than its owner may access it; FailedPrecondition if it does not
  // contain a key; otherwise the error of the file system.
  static absl::StatusOr<HandleKey> Load(const std::string& path);

  FileHandle Seal(uint64_t export_id, const KernelHandle& kernel) const;
  // Returns nothing if the handle was not sealed with this key.
  std::optional<OpenedHandle> Open(absl::Span<const uint8_t> handle) const;
  // The number of an export in handles. It is the same after each restart with the same key.
  uint64_t ExportId(const std::string& directory) const;

 private:
  std::array<uint8_t, kBytes> key_;
};

// The number of the export in a handle whose seal is not checked; 0 if the handle is too short.
uint64_t ClaimedExport(absl::Span<const uint8_t> handle);

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_EXPORT_FILE_HANDLE_H_
