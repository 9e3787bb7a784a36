#include "nfs/procedures/attribute_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "nfs/v3/errno_status.h"
#include "nfs/v3/files.h"
#include "nfs/v3/listing.h"

namespace pollux::nfs {
namespace {

// Which bits of ACCESS each right of the file system gives.
struct Right {
  int mode;
  uint32_t of_file;
  uint32_t of_directory;
};
constexpr uint32_t kChanges = kAccess3Modify | kAccess3Extend;
constexpr Right kRights[] = {{R_OK, kAccess3Read, kAccess3Read},
                             {W_OK, kChanges, kChanges | kAccess3Delete},
                             {X_OK, kAccess3Execute, kAccess3Lookup}};

bool Has(const Fd& object, int mode) {
  return syscall(SYS_faccessat2, object.get(), "", mode, AT_EACCESS | AT_EMPTY_PATH) == 0;
}

uint32_t Granted(const Fd& object, bool directory) {
  uint32_t granted = 0;
  for (const Right& right : kRights) {
    if (Has(object, right.mode)) granted |= directory ? right.of_directory : right.of_file;
  }
  return granted;
}

// Writing to these does not change the file system.
bool IsNode(Ftype3 type) {
  return type == Ftype3::kBlk || type == Ftype3::kChr || type == Ftype3::kFifo ||
         type == Ftype3::kSock;
}

}  // namespace

GetattrRes Getattr(const CallContext& context, const GetattrArgs& args) {
  Fd object;
  const Nfsstat3 status = context.tree->Find(args.object.span(), &object);
  if (status != Nfsstat3::kOk) return {.status = status};
  const PostOpAttr attributes = AttributesOf(context, object);
  if (!attributes.has_value()) return {.status = Nfsstat3::kStale};
  return {.resok = *attributes};
}

SetattrRes Setattr(const CallContext& context, const SetattrArgs& args) {
  Fd object;
  Nfsstat3 status = context.tree->Find(args.object.span(), &object);
  if (status != Nfsstat3::kOk) return {.status = status};
  WeakCache wcc;
  wcc.Begin(context, object);
  StableChange change;
  if (context.rights->read_only) {
    status = Nfsstat3::kRofs;
  } else if (args.guard.has_value() && *args.guard != ToNfstime3(wcc.before().st_ctim)) {
    status = Nfsstat3::kNotSync;
  } else {
    status = change.Begin(object);
    if (status == Nfsstat3::kOk) status = SetAttributes(context, object, args.new_attributes);
  }
  const WccData obj_wcc = wcc.End(context, object);
  if (status == Nfsstat3::kOk) status = change.Settle(context);
  SetattrRes result{.status = status};
  (status == Nfsstat3::kOk ? result.resok : result.resfail) = obj_wcc;
  return result;
}

AccessRes Access(const CallContext& context, const AccessArgs& args) {
  Fd object;
  const Nfsstat3 status = context.tree->Find(args.object.span(), &object);
  if (status != Nfsstat3::kOk) return {.status = status};
  AccessRes result;
  result.resok.obj_attributes = AttributesOf(context, object);
  const PostOpAttr& attributes = result.resok.obj_attributes;
  const Ftype3 type = attributes.has_value() ? attributes->type : Ftype3::kReg;
  const AsCaller as_caller(context);
  if (!as_caller.ok()) return {.status = Nfsstat3::kServerfault};
  result.resok.access = args.access & Granted(object, type == Ftype3::kDir);
  if (context.rights->read_only && !IsNode(type))
    result.resok.access &= ~(kChanges | kAccess3Delete);
  return result;
}

FsstatRes Fsstat(const CallContext& context, const FsstatArgs& args) {
  Fd object;
  Nfsstat3 status = context.tree->Find(args.object.span(), &object);
  if (status != Nfsstat3::kOk) return {.status = status};
  struct statvfs space;
  if (fstatvfs(object.get(), &space) != 0) status = StatusOfErrno(errno);
  const PostOpAttr attributes = AttributesOf(context, object);
  if (status != Nfsstat3::kOk) return {.status = status, .resfail = attributes};
  return {.resok = {.obj_attributes = attributes,
                    .tbytes = space.f_blocks * space.f_frsize,
                    .fbytes = space.f_bfree * space.f_frsize,
                    .abytes = space.f_bavail * space.f_frsize,
                    .tfiles = space.f_files,
                    .ffiles = space.f_ffree,
                    .afiles = space.f_favail}};
}

FsinfoRes Fsinfo(const CallContext& context, const FsinfoArgs& args) {
  Fd object;
  const Nfsstat3 status = context.tree->Find(args.object.span(), &object);
  if (status != Nfsstat3::kOk) return {.status = status};
  constexpr uint32_t kMultiple = 4096;  // what clients' pages are
  return {.resok = {.obj_attributes = AttributesOf(context, object),
                    .rtmax = kMaxFileData,
                    .rtpref = kMaxFileData,
                    .rtmult = kMultiple,
                    .wtmax = kMaxFileData,
                    .wtpref = kMaxFileData,
                    .wtmult = kMultiple,
                    .dtpref = kMaxDirectoryBytes,
                    .maxfilesize = INT64_MAX,
                    .time_delta = {.seconds = 0, .nseconds = 1},
                    .properties = kFsf3Link | kFsf3Symlink | kFsf3Homogeneous | kFsf3Cansettime}};
}

PathconfRes Pathconf(const CallContext& context, const PathconfArgs& args) {
  Fd object;
  const Nfsstat3 status = context.tree->Find(args.object.span(), &object);
  if (status != Nfsstat3::kOk) return {.status = status};
  constexpr long kAtLeast = 8;  // _POSIX_LINK_MAX, where the file system has no limit to tell
  const long links = fpathconf(context.tree->root().get(), _PC_LINK_MAX);
  return {.resok = {.obj_attributes = AttributesOf(context, object),
                    .linkmax = static_cast<uint32_t>(std::max(links, kAtLeast)),
                    .name_max = kMaxName,
                    .no_trunc = true,
                    .chown_restricted = true,
                    .case_insensitive = false,
                    .case_preserving = true}};
}

}  // namespace pollux::nfs
