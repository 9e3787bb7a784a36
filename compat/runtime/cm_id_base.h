// What calls on queue pairs and the end of the process need of an identifier of rdma_cm.
#ifndef POLLUX_COMPAT_RUNTIME_CM_ID_BASE_H_
#define POLLUX_COMPAT_RUNTIME_CM_ID_BASE_H_

#include <rdma/rdma_cma.h>

#include "cm/manager.h"

namespace pollux::compat {

struct Qp;

// The rest is CmId's (rdmacm/cm_id.h).
struct CmIdBase : rdma_cm_id {
  CmIdBase() : rdma_cm_id{} {}
  cm::Id* native = nullptr;  // during a ScopedWorkerOwnership only
  Qp* bound = nullptr;       // whose connection this is; `qp` is the program's to write
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_RUNTIME_CM_ID_BASE_H_
