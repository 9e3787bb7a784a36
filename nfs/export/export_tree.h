// An export's directory tree, and the way from a client's handle to an object in it.
#ifndef POLLUX_NFS_EXPORT_EXPORT_TREE_H_
#define POLLUX_NFS_EXPORT_EXPORT_TREE_H_

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nfs/export/export.h"
#include "nfs/export/file_handle.h"
#include "nfs/v3/handle.h"
#include "nfs/v3/status.h"
#include "stack/base/fd.h"

namespace pollux::nfs {

// Constant once open, for any number of threads; what it does blocks on the file system. Objects
// are O_PATH descriptors. What is mounted below the export is not part of it. What is moved out of
// the export is stale. Of a file that takes that the kernel knows its name, which after a restart
// of the host it may not until somebody looks the name up, and that it has no other one: until then
// it stays in reach of those who have its handle; and so does one whose path is longer than the
// kernel tells (PATH_MAX).
class ExportTree {
 public:
  // `key` outlives it. NotFound, PermissionDenied... when the directory cannot be opened,
  // FailedPrecondition when its file system gives no handles.
  static absl::StatusOr<std::unique_ptr<ExportTree>> Open(const Export& exported,
                                                          const HandleKey* key);

  const Export& exported() const { return exported_; }
  uint64_t id() const { return id_; }  // in handles, and the fsid in attributes

  // By the server itself (root). kBadhandle: not ours; kStale: the object is gone.
  Nfsstat3 Find(absl::Span<const uint8_t> handle, Fd* object) const;
  // Whether it is a handle of another export under the same key.
  bool IsOfAnother(absl::Span<const uint8_t> handle) const;
  // The same as Find(), of a directory alone (kNotdir).
  Nfsstat3 FindDirectory(absl::Span<const uint8_t> handle, Fd* directory) const;
  // One component, "." and ".." (at the export's root: itself) included. As the caller: his are the
  // rights to search. Symbolic links are not followed.
  Nfsstat3 Lookup(const Fd& directory, std::string_view name, Fd* object) const;
  // `path` from the root on, of any number of components, without symbolic links; "" for the root.
  Nfsstat3 Walk(std::string_view path, Fd* object) const;
  // Nothing when the object is not of this file system.
  std::optional<NfsFh3> HandleOf(const Fd& object) const;

  bool IsRoot(const struct stat& attributes) const {
    return attributes.st_dev == device_ && attributes.st_ino == inode_;
  }
  const Fd& root() const { return root_; }

 private:
  ExportTree(const Export& exported, const HandleKey* key, Fd root);
  bool IsBelow(const std::string& path) const;
  bool HasInside(const Fd& directory) const;
  bool IsOutside(const Fd& object, const struct stat& attributes) const;

  Export exported_;
  const HandleKey* key_;
  uint64_t id_;
  Fd root_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_EXPORT_EXPORT_TREE_H_
