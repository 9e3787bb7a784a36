// The errno values for an absl::Status.
#ifndef POLLUX_COMPAT_VERBS_ERROR_NUMBER_H_
#define POLLUX_COMPAT_VERBS_ERROR_NUMBER_H_

#include "absl/status/status.h"

namespace pollux::compat {

// Never 0 for an error. NotFound stands for an address that the device does not have, as everywhere
// in cm::Manager.
int ErrorNumber(const absl::Status& status);

// For the calls that return -1 or null and set errno.
int Failed(int error);                        // -1
int Failed(const absl::Status& status);       // -1
int ZeroOrErrno(const absl::Status& status);  // 0, or -1 with errno

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_VERBS_ERROR_NUMBER_H_
