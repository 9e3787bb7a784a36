// Opening the device, for those who do so on a program's behalf (rdma_cm).
#ifndef POLLUX_COMPAT_VERBS_CONTEXT_H_
#define POLLUX_COMPAT_VERBS_CONTEXT_H_

#include "compat/verbs/objects.h"

namespace pollux::compat {

// Null with errno set: ENODEV when the port cannot be opened, EMFILE without a descriptor left.
// Closed by ibv_close_device.
Context* OpenContext();

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_VERBS_CONTEXT_H_
