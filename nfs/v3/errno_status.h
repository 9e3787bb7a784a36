// NFS statuses for errors of the file system and for invalid names.
#ifndef POLLUX_NFS_V3_ERRNO_STATUS_H_
#define POLLUX_NFS_V3_ERRNO_STATUS_H_

#include <string_view>

#include "nfs/v3/status.h"

namespace pollux::nfs {

// Returns kIo for errors without an NFS status. RFC 1813 section 2.6
Nfsstat3 StatusOfErrno(int error);

// Whether `name` can be one component of a path: kInval if it is empty or has a character that is
// not allowed in names, kNametoolong if it is longer than kMaxName bytes. RFC 1813 section 3.2
inline constexpr size_t kMaxName = 255;
Nfsstat3 CheckName(std::string_view name);
// The same for a name to be created, removed or renamed: "." and ".." are kInval.
Nfsstat3 CheckNewName(std::string_view name);

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_V3_ERRNO_STATUS_H_
