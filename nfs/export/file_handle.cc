#include "nfs/export/file_handle.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "stack/base/byte_order.h"

namespace pollux::nfs {
namespace {

constexpr uint8_t kVersion = 1;
constexpr size_t kTypeAt = 4;
constexpr size_t kExportAt = 8;
constexpr size_t kSealAt = 16;
constexpr size_t kSealBytes = 12;
constexpr size_t kKernelAt = kSealAt + kSealBytes;
static_assert(kKernelAt + KernelHandle::kMaxBytes == FileHandle::kMaxBytes);
// libsodium makes no shorter ones.
constexpr size_t kHashBytes = crypto_generichash_BYTES_MIN;
static_assert(kHashBytes >= kSealBytes);

using Hash = std::array<uint8_t, kHashBytes>;

// Of `purpose`, so that no hash can stand for another, and the two parts.
Hash HashOf(absl::Span<const uint8_t> key, uint8_t purpose, absl::Span<const uint8_t> first,
            absl::Span<const uint8_t> second) {
  Hash hash;
  crypto_generichash_state state;
  crypto_generichash_init(&state, key.data(), key.size(), hash.size());
  crypto_generichash_update(&state, &purpose, 1);
  crypto_generichash_update(&state, first.data(), first.size());
  crypto_generichash_update(&state, second.data(), second.size());
  crypto_generichash_final(&state, hash.data(), hash.size());
  return hash;
}

constexpr uint8_t kSealPurpose = 's';
constexpr uint8_t kExportPurpose = 'e';

Hash SealOf(absl::Span<const uint8_t> key, absl::Span<const uint8_t> handle) {
  return HashOf(key, kSealPurpose, handle.first(kSealAt), handle.subspan(kKernelAt));
}

absl::Status KeyFileError(const std::string& path, const char* what) {
  return absl::ErrnoToStatus(errno, absl::StrCat("the key of file handles, ", path, ": ", what));
}

// Whole or not at all, though another process does the same.
absl::Status MakeKeyFile(const std::string& path) {
  const std::string fresh = absl::StrCat(path, ".", getpid());
  const int fd = open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return KeyFileError(path, "cannot be created");
  const absl::Cleanup remove = [&] { unlink(fresh.c_str()); };
  std::array<uint8_t, HandleKey::kBytes> key;
  randombytes_buf(key.data(), key.size());
  const bool written =
      write(fd, key.data(), key.size()) == static_cast<ssize_t>(key.size()) && fsync(fd) == 0;
  const absl::Status status = written ? absl::OkStatus() : KeyFileError(path, "cannot be written");
  close(fd);
  if (!status.ok()) return status;
  if (link(fresh.c_str(), path.c_str()) != 0 && errno != EEXIST) {
    return KeyFileError(path, "cannot be created");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<HandleKey> HandleKey::Load(const std::string& path) {
  if (sodium_init() < 0) return absl::InternalError("libsodium cannot be initialized");
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) {
    if (absl::Status status = MakeKeyFile(path); !status.ok()) return status;
    fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  }
  if (fd < 0) return KeyFileError(path, "cannot be opened");
  const absl::Cleanup closer = [fd] { close(fd); };
  struct stat attributes;
  if (fstat(fd, &attributes) != 0) return KeyFileError(path, "its attributes cannot be read");
  if ((attributes.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        "the key of file handles, ", path,
        ", is open to other users, who can forge handles with it: chmod 600, or remove "
        "it to get a new one (clients must then mount again)"));
  }
  std::array<uint8_t, kBytes> key;
  if (attributes.st_size != static_cast<off_t>(kBytes) ||
      read(fd, key.data(), key.size()) != static_cast<ssize_t>(key.size())) {
    return absl::FailedPreconditionError(
        absl::StrCat("the key of file handles, ", path, ", does not hold ", kBytes,
                     " bytes; remove it to get a new one (clients must then mount again)"));
  }
  return HandleKey(key);
}

FileHandle HandleKey::Seal(uint64_t export_id, const KernelHandle& kernel) const {
  FileHandle handle;
  uint8_t* bytes = handle.bytes_.data();
  handle.size_ = kKernelAt + kernel.size;
  bytes[0] = kVersion;
  bytes[1] = kernel.size;
  StoreBe32(bytes + kTypeAt, static_cast<uint32_t>(kernel.type));
  StoreBe64(bytes + kExportAt, export_id);
  std::copy_n(kernel.bytes.begin(), kernel.size, bytes + kKernelAt);
  std::copy_n(SealOf(key_, handle.view()).begin(), kSealBytes, bytes + kSealAt);
  return handle;
}

std::optional<OpenedHandle> HandleKey::Open(absl::Span<const uint8_t> handle) const {
  if (handle.size() < kKernelAt || handle.size() > FileHandle::kMaxBytes || handle[0] != kVersion ||
      handle[1] != handle.size() - kKernelAt) {
    return std::nullopt;
  }
  const Hash seal = SealOf(key_, handle);
  if (sodium_memcmp(seal.data(), handle.data() + kSealAt, kSealBytes) != 0) return std::nullopt;
  OpenedHandle opened{.export_id = ClaimedExport(handle), .kernel = {}};
  opened.kernel.type = static_cast<int32_t>(LoadBe32(handle.data() + kTypeAt));
  opened.kernel.size = handle[1];
  std::copy(handle.begin() + kKernelAt, handle.end(), opened.kernel.bytes.begin());
  return opened;
}

uint64_t HandleKey::ExportId(const std::string& directory) const {
  const Hash hash =
      HashOf(key_, kExportPurpose,
             {reinterpret_cast<const uint8_t*>(directory.data()), directory.size()}, {});
  return LoadBe64(hash.data());
}

uint64_t ClaimedExport(absl::Span<const uint8_t> handle) {
  return handle.size() < kKernelAt ? 0 : LoadBe64(handle.data() + kExportAt);
}

}  // namespace pollux::nfs
