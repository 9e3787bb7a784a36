// File attributes, for GETATTR, SETATTR and ACCESS and for weak cache consistency. Source: RFC 1813
// sections 2.6, 3.3.1, 3.3.2 and 3.3.4.
#ifndef POLLUX_NFS_V3_ATTRIBUTES_H_
#define POLLUX_NFS_V3_ATTRIBUTES_H_

#include <cstdint>
#include <optional>

#include "nfs/v3/handle.h"
#include "oncrpc/codec.h"

namespace pollux::nfs {

enum class Ftype3 : uint32_t {
  kReg = 1,
  kDir = 2,
  kBlk = 3,
  kChr = 4,
  kLnk = 5,
  kSock = 6,
  kFifo = 7,
};
constexpr bool IsValid(Ftype3 type) { return type >= Ftype3::kReg && type <= Ftype3::kFifo; }

// Time since 1970 in UTC.
struct Nfstime3 {
  uint32_t seconds = 0;
  uint32_t nseconds = 0;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.seconds, self.nseconds);
  }
  friend bool operator==(const Nfstime3&, const Nfstime3&) = default;
};

// Major and minor device number.
struct Specdata3 {
  uint32_t specdata1 = 0;
  uint32_t specdata2 = 0;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.specdata1, self.specdata2);
  }
  friend bool operator==(const Specdata3&, const Specdata3&) = default;
};

struct Fattr3 {
  Ftype3 type = Ftype3::kReg;
  uint32_t mode = 0;  // only permission bits: 07777
  uint32_t nlink = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint64_t size = 0;  // bytes
  uint64_t used = 0;  // bytes of disk space
  Specdata3 rdev;
  uint64_t fsid = 0;
  uint64_t fileid = 0;
  Nfstime3 atime;
  Nfstime3 mtime;
  Nfstime3 ctime;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.type, self.mode, self.nlink, self.uid, self.gid, self.size, self.used, self.rdev,
          self.fsid, self.fileid, self.atime, self.mtime, self.ctime);
  }
  friend bool operator==(const Fattr3&, const Fattr3&) = default;
};
using PostOpAttr = std::optional<Fattr3>;

struct WccAttr {
  uint64_t size = 0;
  Nfstime3 mtime;
  Nfstime3 ctime;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.size, self.mtime, self.ctime);
  }
};
using PreOpAttr = std::optional<WccAttr>;

struct WccData {
  PreOpAttr before;
  PostOpAttr after;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.before, self.after);
  }
};

enum class TimeHow : uint32_t { kDontChange = 0, kSetToServerTime = 1, kSetToClientTime = 2 };
constexpr bool IsValid(TimeHow how) { return how <= TimeHow::kSetToClientTime; }

// set_atime and set_mtime
struct SetTime3 {
  TimeHow set_it = TimeHow::kDontChange;
  Nfstime3 time;  // only for kSetToClientTime
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.set_it);
    if (self.set_it == TimeHow::kSetToClientTime) codec(self.time);
  }
};

// Attributes without a value are not changed.
struct Sattr3 {
  std::optional<uint32_t> mode;
  std::optional<uint32_t> uid;
  std::optional<uint32_t> gid;
  std::optional<uint64_t> size;
  SetTime3 atime;
  SetTime3 mtime;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.mode, self.uid, self.gid, self.size, self.atime, self.mtime);
  }
};

struct GetattrArgs {
  NfsFh3 object;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.object);
  }
};
using GetattrRes = Result3<Fattr3, oncrpc::Void>;

struct SetattrArgs {
  NfsFh3 object;
  Sattr3 new_attributes;
  std::optional<Nfstime3> guard;  // fails unless the object has this ctime
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.object, self.new_attributes, self.guard);
  }
};
using SetattrRes = Result3<WccData, WccData>;

// Bits of AccessArgs::access and AccessOk::access.
inline constexpr uint32_t kAccess3Read = 0x01;
inline constexpr uint32_t kAccess3Lookup = 0x02;
inline constexpr uint32_t kAccess3Modify = 0x04;
inline constexpr uint32_t kAccess3Extend = 0x08;
inline constexpr uint32_t kAccess3Delete = 0x10;
inline constexpr uint32_t kAccess3Execute = 0x20;

struct AccessArgs {
  NfsFh3 object;
  uint32_t access = 0;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.object, self.access);
  }
};
struct AccessOk {
  PostOpAttr obj_attributes;
  uint32_t access = 0;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.obj_attributes, self.access);
  }
};
using AccessRes = Result3<AccessOk, PostOpAttr>;

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_V3_ATTRIBUTES_H_
