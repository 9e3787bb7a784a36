// What the file system says, in the words of NFS.
#ifndef POLLUX_NFS_V3_ERRNO_STATUS_H_
#define POLLUX_NFS_V3_ERRNO_STATUS_H_

#include <string_view>

#include "nfs/v3/status.h"

namespace pollux::nfs {

// kIo for what NFS has no word for. RFC 1813 section 2.6
Nfsstat3 StatusOfErrno(int error);

// Whether it can be one component of a path: kInval without a character or with one that cannot be
// in a name, kNametoolong past 255 bytes. RFC 1813 section 3.2
inline constexpr size_t kMaxName = 255;
Nfsstat3 CheckName(std::string_view name);
// The same of what is to be made, removed or renamed: "." and ".." are kInval.
Nfsstat3 CheckNewName(std::string_view name);

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_V3_ERRNO_STATUS_H_
