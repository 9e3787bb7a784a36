#include "nfs/v3/status.h"

#include <array>

#include "absl/strings/str_cat.h"

namespace pollux::nfs {
namespace {

using Code = absl::StatusCode;

struct Meaning {
  Nfsstat3 status;
  const char* name;
  Code code;
  const char* words;
};

constexpr std::array kMeanings = {
    Meaning{Nfsstat3::kOk, "NFS3_OK", Code::kOk, ""},
    Meaning{Nfsstat3::kPerm, "NFS3ERR_PERM", Code::kPermissionDenied,
            "only its owner or root may do that"},
    Meaning{Nfsstat3::kNoent, "NFS3ERR_NOENT", Code::kNotFound, "no such file or directory"},
    Meaning{Nfsstat3::kIo, "NFS3ERR_IO", Code::kUnknown, "the server's storage failed"},
    Meaning{Nfsstat3::kNxio, "NFS3ERR_NXIO", Code::kUnknown, "no such device at the server"},
    Meaning{Nfsstat3::kAcces, "NFS3ERR_ACCES", Code::kPermissionDenied, "permission denied"},
    Meaning{Nfsstat3::kExist, "NFS3ERR_EXIST", Code::kAlreadyExists, "it exists already"},
    Meaning{Nfsstat3::kXdev, "NFS3ERR_XDEV", Code::kFailedPrecondition,
            "the two names are on different file systems"},
    Meaning{Nfsstat3::kNodev, "NFS3ERR_NODEV", Code::kUnknown, "no such device at the server"},
    Meaning{Nfsstat3::kNotdir, "NFS3ERR_NOTDIR", Code::kFailedPrecondition, "not a directory"},
    Meaning{Nfsstat3::kIsdir, "NFS3ERR_ISDIR", Code::kFailedPrecondition, "a directory"},
    Meaning{Nfsstat3::kInval, "NFS3ERR_INVAL", Code::kFailedPrecondition,
            "the server cannot do that to this kind of object"},
    Meaning{Nfsstat3::kFbig, "NFS3ERR_FBIG", Code::kFailedPrecondition,
            "larger than the server allows a file to be"},
    Meaning{Nfsstat3::kNospc, "NFS3ERR_NOSPC", Code::kResourceExhausted,
            "the server has no space left"},
    Meaning{Nfsstat3::kRofs, "NFS3ERR_ROFS", Code::kPermissionDenied,
            "the export or its file system is read-only"},
    Meaning{Nfsstat3::kMlink, "NFS3ERR_MLINK", Code::kFailedPrecondition, "too many hard links"},
    Meaning{Nfsstat3::kNametoolong, "NFS3ERR_NAMETOOLONG", Code::kFailedPrecondition,
            "the name is longer than the server allows"},
    Meaning{Nfsstat3::kNotempty, "NFS3ERR_NOTEMPTY", Code::kFailedPrecondition,
            "the directory is not empty"},
    Meaning{Nfsstat3::kDquot, "NFS3ERR_DQUOT", Code::kResourceExhausted,
            "the user's disk quota is used up"},
    Meaning{Nfsstat3::kStale, "NFS3ERR_STALE", Code::kAborted,
            "it was removed at the server, or is no longer exported"},
    Meaning{Nfsstat3::kRemote, "NFS3ERR_REMOTE", Code::kFailedPrecondition,
            "it is on a file system that the server mounts from another host"},
    Meaning{Nfsstat3::kBadhandle, "NFS3ERR_BADHANDLE", Code::kAborted,
            "the server does not know the file handle"},
    Meaning{Nfsstat3::kNotSync, "NFS3ERR_NOT_SYNC", Code::kAborted, "it was changed meanwhile"},
    Meaning{Nfsstat3::kBadCookie, "NFS3ERR_BAD_COOKIE", Code::kAborted,
            "the directory changed while it was read"},
    Meaning{Nfsstat3::kNotsupp, "NFS3ERR_NOTSUPP", Code::kUnimplemented,
            "the server does not support that"},
    Meaning{Nfsstat3::kToosmall, "NFS3ERR_TOOSMALL", Code::kFailedPrecondition,
            "the reply is larger than the requested size"},
    Meaning{Nfsstat3::kServerfault, "NFS3ERR_SERVERFAULT", Code::kUnknown, "the server failed"},
    Meaning{Nfsstat3::kBadtype, "NFS3ERR_BADTYPE", Code::kFailedPrecondition,
            "the server cannot make objects of that type"},
    Meaning{Nfsstat3::kJukebox, "NFS3ERR_JUKEBOX", Code::kUnavailable,
            "the server needs more time for it; try again later"},
};

const Meaning* Find(Nfsstat3 status) {
  for (const Meaning& meaning : kMeanings) {
    if (meaning.status == status) return &meaning;
  }
  return nullptr;
}

}  // namespace

std::string Name(Nfsstat3 status) {
  const Meaning* meaning = Find(status);
  return meaning != nullptr ? meaning->name
                            : absl::StrCat("status ", static_cast<uint32_t>(status));
}

std::string Words(Nfsstat3 status) {
  const Meaning* meaning = Find(status);
  return absl::StrCat(
      meaning != nullptr ? meaning->words : "the server answered with an unknown status", " (",
      Name(status), ")");
}

absl::Status ToStatus(Nfsstat3 status, std::string_view what) {
  if (status == Nfsstat3::kOk) return absl::OkStatus();
  const absl::string_view subject(what.data(), what.size());
  const Meaning* meaning = Find(status);
  return absl::Status(meaning != nullptr ? meaning->code : Code::kUnknown,
                      absl::StrCat(subject, ": ", Words(status)));
}

}  // namespace pollux::nfs
