// As whom the calling thread meets the file system. The ids are the thread's alone: the C library's
// functions of the same names would change those of the whole process.
#ifndef POLLUX_NFS_EXPORT_IDENTITY_H_
#define POLLUX_NFS_EXPORT_IDENTITY_H_

#include "absl/status/status.h"
#include "nfs/export/credential.h"

namespace pollux::nfs {

// One a thread, made, used and destroyed on it. The process is root.
class Identity {
 public:
  // Gives this thread a umask of its own, of nothing (the client's has been applied already), and
  // takes from it the right to the space that file systems keep for root. PermissionDenied when
  // the process may not act for others.
  absl::Status Begin();

  // Until the next of either. False when the kernel refuses.
  [[nodiscard]] bool Become(const Credential& credential);
  // Root, without groups: for what the server does on its own account.
  [[nodiscard]] bool BecomeServer();
  const Credential& current() const { return current_; }

 private:
  Credential current_{.uid = 0, .gid = 0, .groups = {}};
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_EXPORT_IDENTITY_H_
