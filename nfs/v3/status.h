// The status of an NFS version 3 reply. Source: RFC 1813 section 2.6.
#ifndef POLLUX_NFS_V3_STATUS_H_
#define POLLUX_NFS_V3_STATUS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace pollux::nfs {

enum class Nfsstat3 : uint32_t {
  kOk = 0,
  kPerm = 1,
  kNoent = 2,
  kIo = 5,
  kNxio = 6,
  kAcces = 13,
  kExist = 17,
  kXdev = 18,
  kNodev = 19,
  kNotdir = 20,
  kIsdir = 21,
  kInval = 22,
  kFbig = 27,
  kNospc = 28,
  kRofs = 30,
  kMlink = 31,
  kNametoolong = 63,
  kNotempty = 66,
  kDquot = 69,
  kStale = 70,
  kRemote = 71,
  kBadhandle = 10001,
  kNotSync = 10002,
  kBadCookie = 10003,
  kNotsupp = 10004,
  kToosmall = 10005,
  kServerfault = 10006,
  kBadtype = 10007,
  kJukebox = 10008,
};
// Every value is accepted: an unknown status of a server is still an error to report.
constexpr bool IsValid(Nfsstat3) { return true; }

// The RFC's name, such as "NFS3ERR_NOENT"; "status 12345" for an unknown one.
std::string Name(Nfsstat3 status);

// The problem and the name of the status: "not a directory (NFS3ERR_NOTDIR)".
std::string Words(Nfsstat3 status);

// Returns an error of one line that begins with `what`, describes the problem and names the status.
// Codes: NotFound, PermissionDenied, ResourceExhausted (space, quota), AlreadyExists,
// FailedPrecondition (the object or name does not allow it), Unavailable (kJukebox: try later),
// Aborted (a stale handle), otherwise Unknown.
absl::Status ToStatus(Nfsstat3 status, std::string_view what);

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_V3_STATUS_H_
