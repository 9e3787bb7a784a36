#include "nfs/export/identity.h"

#include <linux/capability.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace pollux::nfs {
namespace {

bool SetGroups(const Credential& credential) {
  return syscall(SYS_setgroups, credential.groups.size(), credential.groups.data()) == 0;
}

// They return what was, whether they succeed or not: asked again with no id, they tell.
bool SetFsUid(uid_t uid) {
  syscall(SYS_setfsuid, uid);
  return static_cast<uid_t>(syscall(SYS_setfsuid, -1)) == uid;
}
bool SetFsGid(gid_t gid) {
  syscall(SYS_setfsgid, gid);
  return static_cast<gid_t>(syscall(SYS_setfsgid, -1)) == gid;
}

bool DropCapability(int capability) {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
  if (syscall(SYS_capget, &header, data) != 0) return false;
  data[CAP_TO_INDEX(capability)].effective &= ~CAP_TO_MASK(capability);
  return syscall(SYS_capset, &header, data) == 0;
}

}  // namespace

absl::Status Identity::Begin() {
  if (unshare(CLONE_FS) != 0 || !SetGroups(current_) || !DropCapability(CAP_SYS_RESOURCE)) {
    return absl::ErrnoToStatus(
        errno,
        "acting for the users of NFS clients needs root (CAP_SETUID, CAP_SETGID, "
        "CAP_DAC_READ_SEARCH), and not in a user namespace");
  }
  umask(0);
  return absl::OkStatus();
}

bool Identity::Become(const Credential& credential) {
  if (credential == current_) return true;
  // The groups while this is root, the user last: with it go and come the rights to override.
  if (!SetFsUid(0) || !SetGroups(credential) || !SetFsGid(credential.gid) ||
      !SetFsUid(credential.uid)) {
    return false;
  }
  current_ = credential;
  return true;
}

bool Identity::BecomeServer() { return Become({.uid = 0, .gid = 0, .groups = {}}); }

}  // namespace pollux::nfs
