#include "nfs/procedures/create_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

#include "absl/functional/function_ref.h"
#include "nfs/v3/errno_status.h"

namespace pollux::nfs {
namespace {

constexpr mode_t kFileMode = 0644;  // where the client says none
constexpr mode_t kDirectoryMode = 0755;
// mkdir(2) and mknod(2) leave these to chmod(2), and chown(2) takes them.
constexpr mode_t kSetIds = S_ISUID | S_ISGID;

// Makes `name` in the directory as the caller.
using Maker = absl::FunctionRef<Nfsstat3(const Fd& directory, const std::string& name)>;

mode_t ModeOf(const Sattr3& attributes, mode_t otherwise) {
  return attributes.mode.value_or(otherwise) & kPermissions;
}

Nfsstat3 StatusOf(int done) { return done == 0 ? Nfsstat3::kOk : StatusOfErrno(errno); }

// Only 31 bits each: file systems that store more seconds than that do not all store these.
std::array<timespec, 2> TimesOf(uint64_t verf) {
  constexpr uint64_t kSeconds = 0x7FFFFFFF;
  return {timespec{.tv_sec = static_cast<time_t>(verf >> 32 & kSeconds), .tv_nsec = 0},
          timespec{.tv_sec = static_cast<time_t>(verf & kSeconds), .tv_nsec = 0}};
}

bool BearsVerifier(const struct stat& attributes, uint64_t verf) {
  const std::array<timespec, 2> times = TimesOf(verf);
  return attributes.st_atim.tv_sec == times[0].tv_sec &&
         attributes.st_mtim.tv_sec == times[1].tv_sec && attributes.st_atim.tv_nsec == 0 &&
         attributes.st_mtim.tv_nsec == 0;
}

Nfsstat3 CreateExclusive(const Fd& directory, const std::string& name, uint64_t verf) {
  const Fd file(openat(directory.get(), name.c_str(),
                       O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (file.ok()) return StatusOf(futimens(file.get(), TimesOf(verf).data()));
  if (errno != EEXIST) return StatusOfErrno(errno);
  struct stat there;
  if (fstatat(directory.get(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0) {
    return StatusOfErrno(errno);
  }
  return S_ISREG(there.st_mode) && BearsVerifier(there, verf) ? Nfsstat3::kOk : Nfsstat3::kExist;
}

Nfsstat3 CreateNew(const Fd& directory, const std::string& name, mode_t mode) {
  return Fd(openat(directory.get(), name.c_str(),
                   O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, mode))
                 .ok()
             ? Nfsstat3::kOk
             : StatusOfErrno(errno);
}

bool IsMember(const Credential& caller, gid_t group) {
  return caller.gid == group ||
         std::find(caller.groups.begin(), caller.groups.end(), group) != caller.groups.end();
}

// What remains to be set of an object that was just made with its mode. As with Linux, an owner or
// group that the caller may not set is ignored: some clients send the ones that they expect.
Sattr3 Remaining(const CallContext& context, const Sattr3& wanted) {
  Sattr3 rest = wanted;
  if ((wanted.mode.value_or(0) & kSetIds) == 0) rest.mode.reset();
  if (context.caller.uid == 0) return rest;
  rest.uid.reset();
  if (rest.gid.has_value() && !IsMember(context.caller, *rest.gid)) rest.gid.reset();
  return rest;
}

// File descriptors for TellCreated(), which opens the new object, opens it again for fsync(), and
// once more to set its size. If they cannot be reserved, the call fails with kJukebox before
// anything has changed. Each is released right before it is needed, so another thread can take it
// only in that short time.
class ReservedDescriptors {
 public:
  Nfsstat3 Take(const Fd& directory) {
    for (Fd& one : reserved_) {
      one = Fd(fcntl(directory.get(), F_DUPFD_CLOEXEC, 0));
      if (!one.ok()) return StatusOfErrno(errno);
    }
    return Nfsstat3::kOk;
  }
  void ReleaseOne() { reserved_[released_++] = Fd(); }

 private:
  std::array<Fd, 3> reserved_;
  size_t released_ = 0;
};

// Finds the new object, sets the attributes that remain, stores object and directory, and fills the
// results. `made` is the directory's change.
Nfsstat3 TellCreated(const CallContext& context, const Fd& directory, std::string_view name,
                     const Sattr3& rest, StableChange* made, ReservedDescriptors* reserved,
                     CreateOk* told) {
  Fd object;
  StableChange change;
  Nfsstat3 status = Nfsstat3::kServerfault;
  {
    const AsCaller as_caller(context);
    reserved->ReleaseOne();
    if (as_caller.ok()) status = context.tree->Lookup(directory, name, &object);
  }
  reserved->ReleaseOne();
  if (status == Nfsstat3::kOk) status = change.Begin(object);
  reserved->ReleaseOne();
  if (status == Nfsstat3::kOk) status = SetAttributes(context, object, rest);
  if (status == Nfsstat3::kOk) status = change.Settle(context);
  if (status == Nfsstat3::kOk) status = made->Settle(context);
  if (status != Nfsstat3::kOk) return status;
  told->obj = context.tree->HandleOf(object);
  told->obj_attributes = AttributesOf(context, object);
  return Nfsstat3::kOk;
}

// RFC 1813 section 3.3.9 has these names exist.
Nfsstat3 CheckMade(const CallContext& context, std::string_view name) {
  if (context.rights->read_only) return Nfsstat3::kRofs;
  return name == "." || name == ".." ? Nfsstat3::kExist : CheckName(name);
}

// `rest` is read after `maker` has run, which may change it.
CreateRes Make(const CallContext& context, const Diropargs3& where, const Sattr3& rest,
               Maker maker) {
  Fd directory;
  Nfsstat3 status = context.tree->FindDirectory(where.dir.span(), &directory);
  if (status != Nfsstat3::kOk) return {.status = status};
  WeakCache wcc;
  wcc.Begin(context, directory);
  const std::string name(where.name.text);
  StableChange change;
  ReservedDescriptors reserved;
  status = CheckMade(context, name);
  if (status == Nfsstat3::kOk) status = change.Begin(directory);
  if (status == Nfsstat3::kOk) status = reserved.Take(directory);
  if (status == Nfsstat3::kOk) {
    const AsCaller as_caller(context);
    status = as_caller.ok() ? maker(directory, name) : Nfsstat3::kServerfault;
  }
  const WccData dir_wcc = wcc.End(context, directory);
  CreateRes result;
  if (status == Nfsstat3::kOk) {
    status = TellCreated(context, directory, name, rest, &change, &reserved, &result.resok);
  }
  result.status = status;
  (status == Nfsstat3::kOk ? result.resok.dir_wcc : result.resfail) = dir_wcc;
  return result;
}

CreateRes MakeFile(const CallContext& context, const CreateArgs& args) {
  const Sattr3& wanted = args.how.obj_attributes;
  return Make(context, args.where, Remaining(context, wanted),
              [&](const Fd& directory, const std::string& name) {
                return CreateNew(directory, name, ModeOf(wanted, kFileMode));
              });
}

// An UNCHECKED create of an existing object sets the size of a regular file and nothing else.
CreateRes FindExisting(const CallContext& context, const CreateArgs& args) {
  Sattr3 rest{.size = args.how.obj_attributes.size};
  return Make(context, args.where, rest, [&](const Fd& directory, const std::string& name) {
    struct stat there;
    if (fstatat(directory.get(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0) {
      return StatusOfErrno(errno);
    }
    if (S_ISLNK(there.st_mode) || S_ISDIR(there.st_mode)) return Nfsstat3::kExist;
    // As open(2) with O_TRUNC, which leaves FIFOs and devices alone.
    if (!S_ISREG(there.st_mode)) rest.size.reset();
    return Nfsstat3::kOk;
  });
}

CreateRes CreateUnchecked(const CallContext& context, const CreateArgs& args) {
  // Another process may remove the name each time before it is found: of a lock file, say.
  constexpr int kMaxTries = 8;
  CreateRes result;
  for (int i = 0; i < kMaxTries; ++i) {
    result = MakeFile(context, args);
    if (result.status == Nfsstat3::kExist) result = FindExisting(context, args);
    if (result.status != Nfsstat3::kNoent) return result;
  }
  return result;
}

std::optional<mode_t> FileTypeOf(Ftype3 type) {
  switch (type) {
    case Ftype3::kBlk:
      return S_IFBLK;
    case Ftype3::kChr:
      return S_IFCHR;
    case Ftype3::kSock:
      return S_IFSOCK;
    case Ftype3::kFifo:
      return S_IFIFO;
    default:
      return std::nullopt;
  }
}

}  // namespace

CreateRes Create(const CallContext& context, const CreateArgs& args) {
  switch (args.how.mode) {
    case Createmode3::kUnchecked:
      return CreateUnchecked(context, args);
    case Createmode3::kGuarded:
      return MakeFile(context, args);
    case Createmode3::kExclusive:
      break;
  }
  return Make(context, args.where, Sattr3{}, [&](const Fd& directory, const std::string& name) {
    return CreateExclusive(directory, name, args.how.verf);
  });
}

CreateRes Mkdir(const CallContext& context, const MkdirArgs& args) {
  const mode_t mode = ModeOf(args.attributes, kDirectoryMode);
  return Make(context, args.where, Remaining(context, args.attributes),
              [&](const Fd& directory, const std::string& name) {
                return StatusOf(mkdirat(directory.get(), name.c_str(), mode));
              });
}

CreateRes Symlink(const CallContext& context, const SymlinkArgs& args) {
  const absl::Span<const uint8_t> bytes = args.symlink_data.bytes;
  const std::string text(bytes.begin(), bytes.end());
  // A link has no mode and no size of its own to set.
  Sattr3 rest = Remaining(context, args.symlink_attributes);
  rest.mode.reset();
  rest.size.reset();
  return Make(context, args.where, rest, [&](const Fd& directory, const std::string& name) {
    if (text.empty() || text.find('\0') != std::string::npos) return Nfsstat3::kInval;
    return StatusOf(symlinkat(text.c_str(), directory.get(), name.c_str()));
  });
}

CreateRes Mknod(const CallContext& context, const MknodArgs& args) {
  const std::optional<mode_t> type = FileTypeOf(args.what.type);
  const mode_t mode = ModeOf(args.what.attributes, kFileMode);
  const dev_t device = makedev(args.what.spec.specdata1, args.what.spec.specdata2);
  return Make(context, args.where, Remaining(context, args.what.attributes),
              [&](const Fd& directory, const std::string& name) {
                if (!type.has_value()) return Nfsstat3::kBadtype;
                return StatusOf(mknodat(directory.get(), name.c_str(), *type | mode, device));
              });
}

}  // namespace pollux::nfs
