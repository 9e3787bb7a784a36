// Directory listings: READDIR and READDIRPLUS. Source: RFC 1813 sections 3.3.16 and 3.3.17.
#ifndef POLLUX_NFS_V3_LISTING_H_
#define POLLUX_NFS_V3_LISTING_H_

#include <cstddef>
#include <cstdint>

#include "nfs/v3/attributes.h"
#include "nfs/v3/handle.h"
#include "oncrpc/codec.h"

namespace pollux::nfs {

// XDR bytes of a ReaddirOk or ReaddirplusOk.
inline constexpr uint32_t kMaxDirectoryBytes = 64 * 1024;
// XDR bytes of the smallest entry, with a name of one byte and the word that precedes each entry.
inline constexpr uint32_t kMinEntryBytes = 28;
inline constexpr uint32_t kMaxEntries = kMaxDirectoryBytes / kMinEntryBytes;

// 8 opaque bytes as one number. Cookies are valid while it stays the same.
using Cookieverf3 = uint64_t;

struct ReaddirArgs {
  NfsFh3 dir;
  uint64_t cookie = 0;  // of the last known entry; 0: start of the directory
  Cookieverf3 cookieverf = 0;
  uint32_t count = 0;  // maximum XDR bytes of the ReaddirOk
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.dir, self.cookie, self.cookieverf, self.count);
  }
};
struct Entry3 {
  uint64_t fileid = 0;
  Filename3 name;
  uint64_t cookie = 0;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.fileid, self.name, self.cookie);
  }
};
struct ReaddirOk {
  PostOpAttr dir_attributes;
  Cookieverf3 cookieverf = 0;
  oncrpc::LinkedList<Entry3, kMaxEntries> entries;
  bool eof = false;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.dir_attributes, self.cookieverf, self.entries, self.eof);
  }
};
using ReaddirRes = Result3<ReaddirOk, PostOpAttr>;

struct ReaddirplusArgs {
  NfsFh3 dir;
  uint64_t cookie = 0;
  Cookieverf3 cookieverf = 0;
  uint32_t dircount = 0;  // maximum XDR bytes of fileids, names and cookies
  uint32_t maxcount = 0;  // maximum XDR bytes of the ReaddirplusOk
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.dir, self.cookie, self.cookieverf, self.dircount, self.maxcount);
  }
};
struct Entryplus3 {
  uint64_t fileid = 0;
  Filename3 name;
  uint64_t cookie = 0;
  PostOpAttr name_attributes;
  PostOpFh3 name_handle;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.fileid, self.name, self.cookie, self.name_attributes, self.name_handle);
  }
};
struct ReaddirplusOk {
  PostOpAttr dir_attributes;
  Cookieverf3 cookieverf = 0;
  oncrpc::LinkedList<Entryplus3, kMaxEntries> entries;
  bool eof = false;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.dir_attributes, self.cookieverf, self.entries, self.eof);
  }
};
using ReaddirplusRes = Result3<ReaddirplusOk, PostOpAttr>;

// XDR bytes that one entry adds to its list.
size_t ListedBytes(const Entry3& entry);
size_t ListedBytes(const Entryplus3& entry);
// XDR bytes of a ReaddirOk or ReaddirplusOk without entries. The rest of `count` or `maxcount` is
// left for entries.
size_t EmptyListBytes(bool with_attributes);

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_V3_LISTING_H_
