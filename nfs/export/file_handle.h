// File handles as clients keep them: the file system's own handle, which survives a restart, sealed
// with a key, so that a client can name only what it was given. RFC 1813 section 2.3.3
#ifndef POLLUX_NFS_EXPORT_FILE_HANDLE_H_
#define POLLUX_NFS_EXPORT_FILE_HANDLE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace pollux::nfs {

// What a file system calls an inode: name_to_handle_at(2).
struct KernelHandle {
  static constexpr size_t kMaxBytes = 36;
  int32_t type = 0;
  uint8_t size = 0;
  std::array<uint8_t, kMaxBytes> bytes{};
  absl::Span<const uint8_t> view() const { return {bytes.data(), size}; }
};

// On the wire: version (1 byte), size of the kernel's handle (1), zero (2), its type (4), the
// export (8), the seal of all the others (12), the kernel's handle. Integers are big-endian.
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

// Any thread; constant once made.
class HandleKey {
 public:
  static constexpr size_t kBytes = 32;

  explicit HandleKey(const std::array<uint8_t, kBytes>& key) : key_(key) {}
  // From a file, which is made with a random key when there is none. It may be read by its owner
  // alone: PermissionDenied if others may, FailedPrecondition when it holds no key; what the file
  // system says else.
  static absl::StatusOr<HandleKey> Load(const std::string& path);

  FileHandle Seal(uint64_t export_id, const KernelHandle& kernel) const;
  // Nothing when the key did not seal it.
  std::optional<OpenedHandle> Open(absl::Span<const uint8_t> handle) const;
  // Names an export in handles: the same one after each restart with the same key.
  uint64_t ExportId(const std::string& directory) const;

 private:
  std::array<uint8_t, kBytes> key_;
};

// Which export a handle claims to be of, whoever sealed it; 0 when it is too short to say.
uint64_t ClaimedExport(absl::Span<const uint8_t> handle);

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_EXPORT_FILE_HANDLE_H_
