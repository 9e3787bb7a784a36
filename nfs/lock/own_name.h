// The name of this host for the lock managers and status monitors of other hosts.
#ifndef POLLUX_NFS_LOCK_OWN_NAME_H_
#define POLLUX_NFS_LOCK_OWN_NAME_H_

#include <limits.h>
#include <unistd.h>

#include <array>
#include <string>

namespace pollux::nfs {

inline std::string OwnName() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_LOCK_OWN_NAME_H_
