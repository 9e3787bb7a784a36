// The largest possible arguments and results, for tests of the codec and of the binding.
#ifndef POLLUX_NFS_V3_SAMPLES_FOR_TEST_H_
#define POLLUX_NFS_V3_SAMPLES_FOR_TEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "nfs/v3/attributes.h"
#include "nfs/v3/binding.h"
#include "nfs/v3/directories.h"
#include "nfs/v3/file_system.h"
#include "nfs/v3/files.h"
#include "nfs/v3/listing.h"
#include "oncrpc/codec.h"

namespace pollux::nfs {

struct Samples {
  std::string name = std::string(kMaxFilename3, 'n');
  std::vector<uint8_t> data = std::vector<uint8_t>(kMaxFileData, 0xA5);
  std::vector<uint8_t> path = std::vector<uint8_t>(kMaxNfspath3, 'p');

  NfsFh3 handle = {.bytes = {1, 2, 3}, .size = kFhsize3};
  Diropargs3 where = {.dir = handle, .name = {name}};
  Fattr3 fattr = {.type = Ftype3::kDir,
                  .mode = 01777,
                  .nlink = 3,
                  .uid = 4,
                  .gid = 5,
                  .size = 1ull << 40,
                  .used = 6,
                  .rdev = {7, 8},
                  .fsid = 9,
                  .fileid = ~0ull,
                  .atime = {10, 11},
                  .mtime = {12, 13},
                  .ctime = {14, 15}};
  Sattr3 sattr = {.mode = 0644,
                  .uid = 1,
                  .gid = 2,
                  .size = 1ull << 33,
                  .atime = {TimeHow::kSetToClientTime, {3, 4}},
                  .mtime = {TimeHow::kSetToClientTime, {5, 6}}};
  WccData wcc = {.before = WccAttr{.size = 1, .mtime = {2, 3}, .ctime = {4, 5}}, .after = fattr};
  CreateOk created = {.obj = handle, .obj_attributes = fattr, .dir_wcc = wcc};

  Samples() = default;
  Samples(const Samples&) = delete;  // the structures point into this one

  // Calls visit(procedure, arguments, results) for each procedure except NULL, READDIR and
  // READDIRPLUS.
  template <class Visit>
  void ForEach(Visit visit) const {
    using P = Procedure;
    visit(P::kGetattr, GetattrArgs{handle}, GetattrRes{.resok = fattr, .resfail = {}});
    visit(P::kSetattr, SetattrArgs{handle, sattr, Nfstime3{1, 2}}, SetattrRes{.resok = wcc});
    visit(P::kLookup, where, LookupRes{.resok = {handle, fattr, fattr}});
    visit(P::kAccess, AccessArgs{handle, 0x3F}, AccessRes{.resok = {fattr, 0x1F}});
    visit(P::kReadlink, ReadlinkArgs{handle}, ReadlinkRes{.resok = {fattr, {path}}});
    visit(P::kRead, ReadArgs{handle, 1ull << 40, kMaxFileData},
          ReadRes{.resok = {fattr, kMaxFileData, true, {data}}});
    visit(P::kWrite, WriteArgs{handle, 1, kMaxFileData, StableHow::kFileSync, {data}},
          WriteRes{.resok = {wcc, kMaxFileData, StableHow::kFileSync, 77}});
    visit(P::kCreate, CreateArgs{where, {Createmode3::kGuarded, sattr}},
          CreateRes{.resok = created});
    visit(P::kMkdir, MkdirArgs{where, sattr}, CreateRes{.resok = created});
    visit(P::kSymlink, SymlinkArgs{where, sattr, {path}}, CreateRes{.resok = created});
    visit(P::kMknod, MknodArgs{where, {Ftype3::kChr, sattr, {1, 2}}}, CreateRes{.resok = created});
    visit(P::kRemove, where, RemoveRes{.resok = wcc});
    visit(P::kRmdir, where, RemoveRes{.resok = wcc});
    visit(P::kRename, RenameArgs{where, where}, RenameRes{.resok = {wcc, wcc}});
    visit(P::kLink, LinkArgs{handle, where}, LinkRes{.resok = {fattr, wcc}});
    visit(P::kFsstat, FsstatArgs{handle}, FsstatRes{.resok = {fattr, 1, 2, 3, 4, 5, 6, 7}});
    visit(P::kFsinfo, FsinfoArgs{handle},
          FsinfoRes{.resok = {fattr, 1, 2, 3, 4, 5, 6, 7, 8, {9, 10}, kFsf3Link}});
    visit(P::kPathconf, PathconfArgs{handle},
          PathconfRes{.resok = {fattr, 1, 2, true, false, true, false}});
    visit(P::kCommit, CommitArgs{handle, 1, 2}, CommitRes{.resok = {wcc, 99}});
  }
};

// Encodes into a buffer that is large enough for everything but bulk data.
template <class T>
std::vector<uint8_t> Encoding(const T& value, std::vector<uint8_t>* eligible = nullptr) {
  std::vector<uint8_t> buffer(2 * kMaxDirectoryBytes);
  const oncrpc::Encoded encoded = oncrpc::Encode(value, absl::MakeSpan(buffer));
  if (!encoded.ok) return {};
  if (eligible != nullptr && encoded.item.has_value()) {
    eligible->assign(encoded.item->bytes.begin(), encoded.item->bytes.end());
  }
  buffer.resize(encoded.stream.size());
  return buffer;
}

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_V3_SAMPLES_FOR_TEST_H_
