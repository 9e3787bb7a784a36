// Opening the device, for those who do so on a program's behalf (rdma_cm).
#ifndef POLLUX_ABI_CONTEXT_H_
#define POLLUX_ABI_CONTEXT_H_

#include "abi/objects.h"

namespace pollux::abi {

// Null with errno set: ENODEV when the port cannot be opened, EMFILE without a descriptor left.
// Closed by ibv_close_device.
Context* OpenContext();

}  // namespace pollux::abi

#endif  // POLLUX_ABI_CONTEXT_H_
