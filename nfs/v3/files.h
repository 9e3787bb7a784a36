// Procedures for the contents of files: READ, WRITE, COMMIT and READLINK. Source: RFC 1813 sections
// 3.3.5 to 3.3.7 and 3.3.21; DDP-eligible items: RFC 8267 section 4.
#ifndef POLLUX_NFS_V3_FILES_H_
#define POLLUX_NFS_V3_FILES_H_

#include <cstdint>

#include "nfs/v3/attributes.h"
#include "nfs/v3/handle.h"
#include "oncrpc/codec.h"

namespace pollux::nfs {

inline constexpr uint32_t kMaxFileData = 1 << 20;  // bytes per READ or WRITE
inline constexpr uint32_t kMaxNfspath3 = 4096;     // bytes of a symbolic link's target

using FileData = oncrpc::EligibleOpaque<kMaxFileData>;
using Nfspath3 = oncrpc::EligibleOpaque<kMaxNfspath3>;
// 8 opaque bytes as one number. If it changes, the server has lost uncommitted data.
using Writeverf3 = uint64_t;

struct ReadArgs {
  NfsFh3 file;
  uint64_t offset = 0;
  uint32_t count = 0;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.file, self.offset, self.count);
  }
};
struct ReadOk {
  PostOpAttr file_attributes;
  uint32_t count = 0;
  bool eof = false;
  FileData data;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.file_attributes, self.count, self.eof, self.data);
  }
};
using ReadRes = Result3<ReadOk, PostOpAttr>;

enum class StableHow : uint32_t { kUnstable = 0, kDataSync = 1, kFileSync = 2 };
constexpr bool IsValid(StableHow how) { return how <= StableHow::kFileSync; }

struct WriteArgs {
  NfsFh3 file;
  uint64_t offset = 0;
  uint32_t count = 0;
  StableHow stable = StableHow::kUnstable;
  FileData data;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.file, self.offset, self.count, self.stable, self.data);
  }
};
struct WriteOk {
  WccData file_wcc;
  uint32_t count = 0;
  StableHow committed = StableHow::kUnstable;
  Writeverf3 verf = 0;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.file_wcc, self.count, self.committed, self.verf);
  }
};
using WriteRes = Result3<WriteOk, WccData>;

struct CommitArgs {
  NfsFh3 file;
  uint64_t offset = 0;
  uint32_t count = 0;  // 0: to the end of the file
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.file, self.offset, self.count);
  }
};
struct CommitOk {
  WccData file_wcc;
  Writeverf3 verf = 0;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.file_wcc, self.verf);
  }
};
using CommitRes = Result3<CommitOk, WccData>;

struct ReadlinkArgs {
  NfsFh3 symlink;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.symlink);
  }
};
struct ReadlinkOk {
  PostOpAttr symlink_attributes;
  Nfspath3 data;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.symlink_attributes, self.data);
  }
};
using ReadlinkRes = Result3<ReadlinkOk, PostOpAttr>;

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_V3_FILES_H_
