// File handles and names, and their limits. Source: RFC 1813 section 2.3.
#ifndef POLLUX_NFS_V3_HANDLE_H_
#define POLLUX_NFS_V3_HANDLE_H_

#include <cstdint>

#include "nfs/v3/status.h"
#include "oncrpc/codec.h"

namespace pollux::nfs {

inline constexpr uint32_t kFhsize3 = 64;  // bytes, NFS3_FHSIZE
// The RFC sets no limit on names. This one exceeds that of every file system, so a server can still
// answer NFS3ERR_NAMETOOLONG to a name that is too long.
inline constexpr uint32_t kMaxFilename3 = 1024;

using NfsFh3 = oncrpc::InlineOpaque<kFhsize3>;           // opaque to clients
using Filename3 = oncrpc::BoundedString<kMaxFilename3>;  // one path component, any bytes
using PostOpFh3 = std::optional<NfsFh3>;

// A name in a directory.
struct Diropargs3 {
  NfsFh3 dir;
  Filename3 name;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.dir, self.name);
  }
};

// The results of a procedure: a union selected by the status.
template <class Ok, class Fail>
struct Result3 {
  Nfsstat3 status = Nfsstat3::kOk;
  Ok resok;
  Fail resfail;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.status);
    if (self.status == Nfsstat3::kOk) {
      codec(self.resok);
    } else {
      codec(self.resfail);
    }
  }
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_V3_HANDLE_H_
