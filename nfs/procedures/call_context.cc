#include "nfs/procedures/call_context.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nfs/v3/errno_status.h"

namespace pollux::nfs {
namespace {

constexpr uint64_t kStatBlock = 512;  // stat(2): the unit of st_blocks
constexpr uint32_t kSecondNs = 1'000'000'000;

Ftype3 TypeOf(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return Ftype3::kDir;
    case S_IFBLK:
      return Ftype3::kBlk;
    case S_IFCHR:
      return Ftype3::kChr;
    case S_IFLNK:
      return Ftype3::kLnk;
    case S_IFSOCK:
      return Ftype3::kSock;
    case S_IFIFO:
      return Ftype3::kFifo;
    default:
      return Ftype3::kReg;
  }
}

// utimensat(2) takes some larger numbers of nanoseconds for UTIME_NOW and the like.
bool IsTime(const SetTime3& set) {
  return set.set_it != TimeHow::kSetToClientTime || set.time.nseconds < kSecondNs;
}

timespec ToTimespec(const SetTime3& set) {
  switch (set.set_it) {
    case TimeHow::kSetToServerTime:
      return {.tv_sec = 0, .tv_nsec = UTIME_NOW};
    case TimeHow::kSetToClientTime:
      return {.tv_sec = set.time.seconds, .tv_nsec = set.time.nseconds};
    case TimeHow::kDontChange:
      break;
  }
  return {.tv_sec = 0, .tv_nsec = UTIME_OMIT};
}

Nfsstat3 SetSize(const CallContext& context, const Fd& object, const struct stat& now,
                 uint64_t size) {
  if (!S_ISREG(now.st_mode)) return Nfsstat3::kInval;
  if (size > INT64_MAX) return Nfsstat3::kFbig;
  Fd file;
  const Nfsstat3 status = OpenFile(context, object, /*write=*/true, &file);
  if (status != Nfsstat3::kOk) return status;
  const AsCaller as_caller(context);
  if (!as_caller.ok()) return Nfsstat3::kServerfault;
  return ftruncate(file.get(), static_cast<off_t>(size)) == 0 ? Nfsstat3::kOk
                                                              : StatusOfErrno(errno);
}

// The owner before the mode: chown(2) takes the set-user-ID bit, also of a file that has that owner
// already, and only the kernel knows who may say so.
Nfsstat3 SetOwnerAndMode(const CallContext& context, const Fd& object, const Sattr3& wanted) {
  constexpr uint32_t kLeave = UINT32_MAX;  // of chown(2)
  if (wanted.uid == kLeave || wanted.gid == kLeave) return Nfsstat3::kInval;
  const AsCaller as_caller(context);
  if (!as_caller.ok()) return Nfsstat3::kServerfault;
  if ((wanted.uid.has_value() || wanted.gid.has_value()) &&
      fchownat(object.get(), "", wanted.uid.value_or(kLeave), wanted.gid.value_or(kLeave),
               AT_EMPTY_PATH) != 0) {
    return StatusOfErrno(errno);
  }
  if (wanted.mode.has_value() && chmod(PathTo(object).c_str(), *wanted.mode & kPermissions) != 0) {
    return StatusOfErrno(errno);
  }
  return Nfsstat3::kOk;
}

// The server's time for one of the two alone is the owner's to set with utimensat(2). Clients send
// it for whoever writes or truncates, which on a local file system changes mtime alone.
bool MaySetToServerTime(const Fd& object, const Sattr3& wanted) {
  return wanted.atime.set_it != TimeHow::kSetToClientTime &&
         wanted.mtime.set_it != TimeHow::kSetToClientTime &&
         faccessat(AT_FDCWD, PathTo(object).c_str(), W_OK, AT_EACCESS) == 0;
}

Nfsstat3 SetTimes(const CallContext& context, const Fd& object, const Sattr3& wanted) {
  const std::array<timespec, 2> times = {ToTimespec(wanted.atime), ToTimespec(wanted.mtime)};
  const auto set = [&] { return utimensat(object.get(), "", times.data(), AT_EMPTY_PATH) == 0; };
  {
    const AsCaller as_caller(context);
    if (!as_caller.ok()) return Nfsstat3::kServerfault;
    if (set()) return Nfsstat3::kOk;
    const int error = errno;
    if (error != EPERM || !MaySetToServerTime(object, wanted)) return StatusOfErrno(error);
  }
  return set() ? Nfsstat3::kOk : StatusOfErrno(errno);
}

}  // namespace

Nfstime3 ToNfstime3(const timespec& time) {
  return {.seconds = static_cast<uint32_t>(time.tv_sec),
          .nseconds = static_cast<uint32_t>(time.tv_nsec)};
}

void LoseUncommitted(const CallContext& context) { context.verifier->fetch_add(1); }

Fattr3 AttributesOf(const struct stat& attributes, uint64_t fsid) {
  return {.type = TypeOf(attributes.st_mode),
          .mode = attributes.st_mode & kPermissions,
          .nlink = static_cast<uint32_t>(attributes.st_nlink),
          .uid = attributes.st_uid,
          .gid = attributes.st_gid,
          .size = static_cast<uint64_t>(attributes.st_size),
          .used = static_cast<uint64_t>(attributes.st_blocks) * kStatBlock,
          .rdev = {.specdata1 = major(attributes.st_rdev), .specdata2 = minor(attributes.st_rdev)},
          .fsid = fsid,
          .fileid = attributes.st_ino,
          .atime = ToNfstime3(attributes.st_atim),
          .mtime = ToNfstime3(attributes.st_mtim),
          .ctime = ToNfstime3(attributes.st_ctim)};
}

PostOpAttr AttributesOf(const CallContext& context, const Fd& object) {
  struct stat attributes;
  if (!object.ok() || fstat(object.get(), &attributes) != 0) return std::nullopt;
  return AttributesOf(attributes, context.tree->id());
}

std::string PathTo(const Fd& object) { return absl::StrCat("/proc/self/fd/", object.get()); }

void WeakCache::Begin(const CallContext& context, const Fd& object) {
  struct stat identity;
  if (fstat(object.get(), &identity) != 0) return;
  ticket_ = context.changes->Begin(identity.st_dev, identity.st_ino);
  changes_ = context.changes;
  before_ = identity;
  fstat(object.get(), &before_);
}

WccData WeakCache::End(const CallContext& context, const Fd& object) {
  WccData data{.before = std::nullopt, .after = AttributesOf(context, object)};
  ChangeWatch* const changes = std::exchange(changes_, nullptr);
  if (changes != nullptr && changes->End(ticket_)) {
    data.before = WccAttr{.size = static_cast<uint64_t>(before_.st_size),
                          .mtime = ToNfstime3(before_.st_mtim),
                          .ctime = ToNfstime3(before_.st_ctim)};
  }
  return data;
}

Nfsstat3 SetAttributes(const CallContext& context, const Fd& object, const Sattr3& wanted) {
  if (!IsTime(wanted.atime) || !IsTime(wanted.mtime)) return Nfsstat3::kInval;
  struct stat now;
  if (fstat(object.get(), &now) != 0) return StatusOfErrno(errno);
  Nfsstat3 status = Nfsstat3::kOk;
  if (wanted.size.has_value()) status = SetSize(context, object, now, *wanted.size);
  if (status == Nfsstat3::kOk &&
      (wanted.uid.has_value() || wanted.gid.has_value() || wanted.mode.has_value())) {
    status = SetOwnerAndMode(context, object, wanted);
  }
  if (status == Nfsstat3::kOk && (wanted.atime.set_it != TimeHow::kDontChange ||
                                  wanted.mtime.set_it != TimeHow::kDontChange)) {
    status = SetTimes(context, object, wanted);
  }
  return status;
}

Nfsstat3 StableChange::Begin(const Fd& object) {
  struct stat now;
  if (fstat(object.get(), &now) != 0) return StatusOfErrno(errno);
  if (!S_ISREG(now.st_mode) && !S_ISDIR(now.st_mode)) return Nfsstat3::kOk;
  file_ = OpenUnleased(object, O_RDONLY);
  return file_.ok() ? Nfsstat3::kOk : StatusOfErrno(errno);
}

Nfsstat3 StableChange::Settle(const CallContext& context) {
  if (!file_.ok()) return Nfsstat3::kOk;
  if (fsync(file_.get()) == 0) return Nfsstat3::kOk;
  const Nfsstat3 status = StatusOfErrno(errno);
  LoseUncommitted(context);
  return status;
}

Fd OpenUnleased(const Fd& object, int flags) {
  Fd file(open(PathTo(object).c_str(), flags | O_NONBLOCK | O_CLOEXEC));
  // O_NONBLOCK is only for open(): reads and writes must block as usual.
  if (file.ok()) fcntl(file.get(), F_SETFL, 0);
  return file;
}

Nfsstat3 OpenFile(const CallContext& context, const Fd& object, bool write, Fd* file,
                  bool* leased) {
  const auto status_of = [leased](int error) {
    if (leased != nullptr) *leased = error == EAGAIN;
    return StatusOfErrno(error);
  };
  struct stat now;
  if (fstat(object.get(), &now) != 0) return status_of(errno);
  if (!S_ISREG(now.st_mode)) return Nfsstat3::kInval;
  const int flags = write ? O_WRONLY : O_RDONLY;
  bool override = now.st_uid == context.caller.uid;
  {
    const AsCaller as_caller(context);
    if (!as_caller.ok()) return Nfsstat3::kServerfault;
    *file = OpenUnleased(object, flags);
    if (file->ok()) return Nfsstat3::kOk;
    if (errno != EACCES) return status_of(errno);
    override |= !write && faccessat(AT_FDCWD, PathTo(object).c_str(), X_OK, AT_EACCESS) == 0;
  }
  if (!override) return Nfsstat3::kAcces;
  *file = OpenUnleased(object, flags);
  return file->ok() ? Nfsstat3::kOk : status_of(errno);
}

}  // namespace pollux::nfs
