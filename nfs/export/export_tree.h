// An export's directory tree, in which objects are found by the handles that clients have.
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

// Immutable and thread-safe once open. Its functions block on the file system. Objects are O_PATH
// descriptors. File systems mounted below the export are not part of it. An object that is moved
// out of the export becomes stale. For a file this is detected only if it has a single link and the
// kernel knows its path: not after a restart of the host until the name is looked up, not for a
// path longer than PATH_MAX, and not while a process has the file open by another name that was
// removed. Until then clients that have the file's handle can access it.
class ExportTree {
 public:
  // NotFound, PermissionDenied and others if the directory cannot be opened; FailedPrecondition if
  // its file system has no handles.
  static absl::StatusOr<std::unique_ptr<ExportTree>> Open(const Export& exported,
                                                          const HandleKey& key);

  const Export& exported() const { return exported_; }
  uint64_t id() const { return id_; }  // in handles, and the fsid in attributes

  // Finds an object with the server's own rights (root). kBadhandle: the handle is not from this
  // server; kStale: the object is gone.
  Nfsstat3 Find(absl::Span<const uint8_t> handle, Fd* object) const;
  // Whether it is a handle of another export with the same key.
  bool IsOfAnother(absl::Span<const uint8_t> handle) const;
  // As Find(), but only for a directory (otherwise kNotdir).
  Nfsstat3 FindDirectory(absl::Span<const uint8_t> handle, Fd* directory) const;
  // Looks up one component, which may be "." or ".." (the root itself if `directory` is the
  // export's root). Must be called with the client's identity, whose search permission is checked.
  // Symbolic links are not followed.
  Nfsstat3 Lookup(const Fd& directory, std::string_view name, Fd* object) const;
  // Looks up `path` from the root, with any number of components. "" is the root. Symbolic links
  // are followed if they are relative and stay inside the export. A link that is the last component
  // is not followed.
  Nfsstat3 Walk(std::string_view path, Fd* object) const;
  // Returns nothing if the object is not on this file system.
  std::optional<NfsFh3> HandleOf(const Fd& object) const;

  bool IsRoot(const struct stat& attributes) const {
    return attributes.st_dev == device_ && attributes.st_ino == inode_;
  }
  const Fd& root() const { return root_; }

 private:
  ExportTree(const Export& exported, const HandleKey& key, Fd root);
  bool IsBelow(const std::string& path) const;
  bool HasInside(const Fd& directory) const;
  bool IsOutside(const Fd& object, const struct stat& attributes) const;

  Export exported_;
  HandleKey key_;
  uint64_t id_;
  Fd root_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_EXPORT_EXPORT_TREE_H_
