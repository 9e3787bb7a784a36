// MOUNT version 3, by which a client gets the root handle of an export, over TCP. Source: RFC 1813
// section 5.
#ifndef POLLUX_NFS_MOUNT_MOUNT_H_
#define POLLUX_NFS_MOUNT_MOUNT_H_

#include <cstdint>

#include "nfs/v3/handle.h"
#include "oncrpc/codec.h"

namespace pollux::nfs {

inline constexpr uint32_t kMountProgram = 100005;
inline constexpr uint32_t kMountV3 = 3;
inline constexpr uint32_t kMntpathlen = 1024;  // bytes
inline constexpr uint32_t kMntnamlen = 255;    // bytes
// The RFC sets no limit on these.
inline constexpr uint32_t kMaxFlavors = 32;
inline constexpr uint32_t kMaxMounts = 1024;
inline constexpr uint32_t kMaxExports = 1024;
inline constexpr uint32_t kMaxGroups = 1024;  // per export

enum class MountProcedure : uint32_t {
  kNull = 0,
  kMnt = 1,
  kDump = 2,
  kUmnt = 3,
  kUmntall = 4,
  kExport = 5,
};

// The values equal those of Nfsstat3 with the same names.
using Mountstat3 = Nfsstat3;

// The argument of MNT and UMNT: an absolute path on the server.
struct Dirpath {
  oncrpc::BoundedString<kMntpathlen> path;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.path);
  }
};
struct MountOk {
  NfsFh3 fhandle;
  oncrpc::BoundedArray<uint32_t, kMaxFlavors> auth_flavors;  // RPC flavors, in order of preference
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.fhandle, self.auth_flavors);
  }
};
using MountRes = Result3<MountOk, oncrpc::Void>;

// The result of DUMP: which client has mounted which directory, as far as the server remembers.
struct Mountbody {
  oncrpc::BoundedString<kMntnamlen> hostname;
  oncrpc::BoundedString<kMntpathlen> directory;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.hostname, self.directory);
  }
};
using Mountlist = oncrpc::LinkedList<Mountbody, kMaxMounts>;

// The result of EXPORT: exported directories and the clients that may mount them.
struct Groupnode {
  oncrpc::BoundedString<kMntnamlen> name;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.name);
  }
};
struct Exportnode {
  oncrpc::BoundedString<kMntpathlen> dir;
  oncrpc::LinkedList<Groupnode, kMaxGroups> groups;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.dir, self.groups);
  }
};
using Exports = oncrpc::LinkedList<Exportnode, kMaxExports>;

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_MOUNT_MOUNT_H_
