// The user as whom the calling thread accesses the file system. It uses system calls directly,
// which change only this thread; the C library's functions of the same names would change the whole
// process.
#ifndef POLLUX_NFS_EXPORT_IDENTITY_H_
#define POLLUX_NFS_EXPORT_IDENTITY_H_

#include "absl/status/status.h"
#include "nfs/export/credential.h"

namespace pollux::nfs {

// One per thread, which creates, uses and destroys it. The process must be root.
class Identity {
 public:
  // Gives this thread its own umask of 0 (clients have applied theirs already) and drops its right
  // to use the space that file systems reserve for root. PermissionDenied if the process may not
  // act for other users.
  absl::Status Begin();

  // Changes the user until the next call of Become() or BecomeServer(). Returns false if the kernel
  // refuses it.
  [[nodiscard]] bool Become(const Credential& credential);
  // Becomes root without groups, for the server's own work.
  [[nodiscard]] bool BecomeServer();
  const Credential& current() const { return current_; }

 private:
  Credential current_{.uid = 0, .gid = 0, .groups = {}};
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_EXPORT_IDENTITY_H_
