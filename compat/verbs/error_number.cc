#include "compat/verbs/error_number.h"

#include <cerrno>

namespace pollux::compat {

int ErrorNumber(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kInvalidArgument:
      return EINVAL;
    case absl::StatusCode::kFailedPrecondition:
      return EBUSY;
    case absl::StatusCode::kResourceExhausted:
      return ENOMEM;
    case absl::StatusCode::kNotFound:
      return EADDRNOTAVAIL;
    case absl::StatusCode::kAlreadyExists:
      return EADDRINUSE;
    case absl::StatusCode::kUnimplemented:
      return EOPNOTSUPP;
    case absl::StatusCode::kDeadlineExceeded:
      return ETIMEDOUT;
    case absl::StatusCode::kUnavailable:
      return EHOSTUNREACH;
    default:
      return EIO;
  }
}

int Failed(int error) {
  errno = error;
  return -1;
}

int Failed(const absl::Status& status) { return Failed(ErrorNumber(status)); }

int ZeroOrErrno(const absl::Status& status) { return status.ok() ? 0 : Failed(status); }

}  // namespace pollux::compat
