// The part of an rdma_cm identifier that is used by calls on queue pairs and at the end of the
// process.
#ifndef POLLUX_COMPAT_RUNTIME_CM_ID_BASE_H_
#define POLLUX_COMPAT_RUNTIME_CM_ID_BASE_H_

#include <rdma/rdma_cma.h>

#include "cm/manager.h"

namespace pollux::compat {

struct Qp;

// The base of CmId (rdmacm/cm_id.h).
struct CmIdBase : rdma_cm_id {
  CmIdBase() : rdma_cm_id{} {}
  cm::Id* native = nullptr;  // used only during a ScopedWorkerOwnership
  Qp* bound = nullptr;       // the queue pair of this connection; programs may change `qp`
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_RUNTIME_CM_ID_BASE_H_
