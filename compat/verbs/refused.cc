// What Pollux does not serve: the documented error for each kind of return value.
#include <cerrno>

#include "compat/loader/export.h"
#include "compat/verbs/error_number.h"

namespace pollux::compat {

// Of the calls that return an errno.
POLLUX_EXPORT int pollux_refuse_errno() { return EOPNOTSUPP; }
// Of those that return -1 and set errno.
POLLUX_EXPORT long pollux_refuse_minus_one() { return Failed(EOPNOTSUPP); }
// Of those that return a pointer and set errno.
POLLUX_EXPORT void* pollux_refuse_null() {
  errno = EOPNOTSUPP;
  return nullptr;
}
// Of those that cannot fail.
POLLUX_EXPORT void pollux_refuse_void() {}

}  // namespace pollux::compat
