#include "nfs/v3/errno_status.h"

#include <cerrno>

namespace pollux::nfs {

Nfsstat3 StatusOfErrno(int error) {
  switch (error) {
    case 0:
      return Nfsstat3::kOk;
    case EPERM:
      return Nfsstat3::kPerm;
    case ENOENT:
      return Nfsstat3::kNoent;
    case ENXIO:
      return Nfsstat3::kNxio;
    // EXDEV, of openat2(): what is mounted there is not exported; ELOOP, of the same: symbolic
    // links are the clients' to follow. EBUSY: something is mounted there. ETXTBSY: a program that
    // runs.
    case EACCES:
    case EXDEV:
    case ELOOP:
    case EBUSY:
    case ETXTBSY:
      return Nfsstat3::kAcces;
    case EEXIST:
      return Nfsstat3::kExist;
    case ENODEV:
      return Nfsstat3::kNodev;
    case ENOTDIR:
      return Nfsstat3::kNotdir;
    case EISDIR:
      return Nfsstat3::kIsdir;
    case EINVAL:
      return Nfsstat3::kInval;
    case EFBIG:
      return Nfsstat3::kFbig;
    case ENOSPC:
      return Nfsstat3::kNospc;
    case EROFS:
      return Nfsstat3::kRofs;
    case EMLINK:
      return Nfsstat3::kMlink;
    case ENAMETOOLONG:
      return Nfsstat3::kNametoolong;
    case ENOTEMPTY:
      return Nfsstat3::kNotempty;
    case EDQUOT:
      return Nfsstat3::kDquot;
    case ESTALE:
      return Nfsstat3::kStale;
    case EOPNOTSUPP:
      return Nfsstat3::kNotsupp;
    // The server's own shortage, which will pass.
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EAGAIN:
      return Nfsstat3::kJukebox;
    default:
      return Nfsstat3::kIo;
  }
}

Nfsstat3 CheckName(std::string_view name) {
  if (name.size() > kMaxName) return Nfsstat3::kNametoolong;
  const bool whole = !name.empty() && name.find('/') == std::string_view::npos &&
                     name.find('\0') == std::string_view::npos;
  return whole ? Nfsstat3::kOk : Nfsstat3::kInval;
}

Nfsstat3 CheckNewName(std::string_view name) {
  if (name == "." || name == "..") return Nfsstat3::kInval;
  return CheckName(name);
}

}  // namespace pollux::nfs
