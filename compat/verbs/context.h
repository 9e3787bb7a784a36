// Opens the device for code that does so on a program's behalf (rdma_cm).
#ifndef POLLUX_COMPAT_VERBS_CONTEXT_H_
#define POLLUX_COMPAT_VERBS_CONTEXT_H_

#include "compat/verbs/objects.h"

namespace pollux::compat {

// Returns null and sets errno on an error: ENODEV if the port cannot be opened, EMFILE if no file
// descriptor is left. Close it by ibv_close_device().
Context* OpenContext();

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_VERBS_CONTEXT_H_
