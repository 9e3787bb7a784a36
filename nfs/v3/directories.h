// Procedures for names in directories: LOOKUP, CREATE, MKDIR, SYMLINK, MKNOD, REMOVE, RMDIR, RENAME
// and LINK. Source: RFC 1813 sections 3.3.3 and 3.3.8 to 3.3.15.
#ifndef POLLUX_NFS_V3_DIRECTORIES_H_
#define POLLUX_NFS_V3_DIRECTORIES_H_

#include <cstdint>

#include "nfs/v3/attributes.h"
#include "nfs/v3/files.h"
#include "nfs/v3/handle.h"
#include "oncrpc/codec.h"

namespace pollux::nfs {

using LookupArgs = Diropargs3;
struct LookupOk {
  NfsFh3 object;
  PostOpAttr obj_attributes;
  PostOpAttr dir_attributes;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.object, self.obj_attributes, self.dir_attributes);
  }
};
using LookupRes = Result3<LookupOk, PostOpAttr>;

// The common results of CREATE, MKDIR, SYMLINK and MKNOD.
struct CreateOk {
  PostOpFh3 obj;
  PostOpAttr obj_attributes;
  WccData dir_wcc;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.obj, self.obj_attributes, self.dir_wcc);
  }
};
using CreateRes = Result3<CreateOk, WccData>;

enum class Createmode3 : uint32_t { kUnchecked = 0, kGuarded = 1, kExclusive = 2 };
constexpr bool IsValid(Createmode3 mode) { return mode <= Createmode3::kExclusive; }

struct Createhow3 {
  Createmode3 mode = Createmode3::kUnchecked;
  Sattr3 obj_attributes;  // for kUnchecked and kGuarded
  uint64_t verf = 0;      // for kExclusive: createverf3, 8 opaque bytes as one number
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.mode);
    if (self.mode == Createmode3::kExclusive) {
      codec(self.verf);
    } else {
      codec(self.obj_attributes);
    }
  }
};
struct CreateArgs {
  Diropargs3 where;
  Createhow3 how;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.where, self.how);
  }
};

struct MkdirArgs {
  Diropargs3 where;
  Sattr3 attributes;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.where, self.attributes);
  }
};

struct SymlinkArgs {
  Diropargs3 where;
  Sattr3 symlink_attributes;
  Nfspath3 symlink_data;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.where, self.symlink_attributes, self.symlink_data);
  }
};

struct Mknoddata3 {
  Ftype3 type = Ftype3::kFifo;  // other types than these four have no further fields
  Sattr3 attributes;            // for kChr, kBlk, kSock and kFifo
  Specdata3 spec;               // for kChr and kBlk
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.type);
    const bool device = self.type == Ftype3::kChr || self.type == Ftype3::kBlk;
    if (device || self.type == Ftype3::kSock || self.type == Ftype3::kFifo) codec(self.attributes);
    if (device) codec(self.spec);
  }
};
struct MknodArgs {
  Diropargs3 where;
  Mknoddata3 what;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.where, self.what);
  }
};

// The arguments and results of REMOVE and RMDIR.
using RemoveArgs = Diropargs3;
using RemoveRes = Result3<WccData, WccData>;

struct RenameArgs {
  Diropargs3 from;
  Diropargs3 to;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.from, self.to);
  }
};
struct RenameWcc {
  WccData fromdir_wcc;
  WccData todir_wcc;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.fromdir_wcc, self.todir_wcc);
  }
};
using RenameRes = Result3<RenameWcc, RenameWcc>;

struct LinkArgs {
  NfsFh3 file;
  Diropargs3 link;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.file, self.link);
  }
};
struct LinkWcc {
  PostOpAttr file_attributes;
  WccData linkdir_wcc;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.file_attributes, self.linkdir_wcc);
  }
};
using LinkRes = Result3<LinkWcc, LinkWcc>;

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_V3_DIRECTORIES_H_
