// Properties and free space of a file system: FSSTAT, FSINFO and PATHCONF. Source: RFC 1813
// sections 3.3.18 to 3.3.20.
#ifndef POLLUX_NFS_V3_FILE_SYSTEM_H_
#define POLLUX_NFS_V3_FILE_SYSTEM_H_

#include <cstdint>

#include "nfs/v3/attributes.h"
#include "nfs/v3/handle.h"
#include "oncrpc/codec.h"

namespace pollux::nfs {

struct FsstatOk {
  PostOpAttr obj_attributes;
  uint64_t tbytes = 0;  // total bytes
  uint64_t fbytes = 0;  // free bytes
  uint64_t abytes = 0;  // bytes available to this user
  uint64_t tfiles = 0;
  uint64_t ffiles = 0;
  uint64_t afiles = 0;
  uint32_t invarsec = 0;  // seconds for which these values will not change
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.obj_attributes, self.tbytes, self.fbytes, self.abytes, self.tfiles, self.ffiles,
          self.afiles, self.invarsec);
  }
};
using FsstatArgs = GetattrArgs;
using FsstatRes = Result3<FsstatOk, PostOpAttr>;

// Bits of FsinfoOk::properties.
inline constexpr uint32_t kFsf3Link = 0x01;
inline constexpr uint32_t kFsf3Symlink = 0x02;
inline constexpr uint32_t kFsf3Homogeneous = 0x08;
inline constexpr uint32_t kFsf3Cansettime = 0x10;

struct FsinfoOk {
  PostOpAttr obj_attributes;
  // Bytes of a READ and of a WRITE: maximum, preferred size, and preferred multiple.
  uint32_t rtmax = 0;
  uint32_t rtpref = 0;
  uint32_t rtmult = 0;
  uint32_t wtmax = 0;
  uint32_t wtpref = 0;
  uint32_t wtmult = 0;
  uint32_t dtpref = 0;  // preferred bytes of a READDIR
  uint64_t maxfilesize = 0;
  Nfstime3 time_delta;  // resolution of the server's times
  uint32_t properties = 0;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.obj_attributes, self.rtmax, self.rtpref, self.rtmult, self.wtmax, self.wtpref,
          self.wtmult, self.dtpref, self.maxfilesize, self.time_delta, self.properties);
  }
};
using FsinfoArgs = GetattrArgs;
using FsinfoRes = Result3<FsinfoOk, PostOpAttr>;

struct PathconfOk {
  PostOpAttr obj_attributes;
  uint32_t linkmax = 0;
  uint32_t name_max = 0;  // bytes of a name
  bool no_trunc = false;
  bool chown_restricted = false;
  bool case_insensitive = false;
  bool case_preserving = false;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.obj_attributes, self.linkmax, self.name_max, self.no_trunc, self.chown_restricted,
          self.case_insensitive, self.case_preserving);
  }
};
using PathconfArgs = GetattrArgs;
using PathconfRes = Result3<PathconfOk, PostOpAttr>;

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_V3_FILE_SYSTEM_H_
