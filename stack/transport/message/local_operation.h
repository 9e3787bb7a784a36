// Work requests that only change keys on this side and send nothing.
#ifndef POLLUX_STACK_TRANSPORT_MESSAGE_LOCAL_OPERATION_H_
#define POLLUX_STACK_TRANSPORT_MESSAGE_LOCAL_OPERATION_H_

#include <infiniband/verbs.h>

#include "stack/verbs/queue_pair.h"

namespace pollux::transport {

// Executes IBV_WR_LOCAL_INV, IBV_WR_BIND_MW or kWrRegMr. Returns IBV_WC_MW_BIND_ERR (the
// specification's memory management operation error), without any effect, if the keys do not allow
// it.
ibv_wc_status ExecuteLocal(const verbs::QueuePair& qp, const verbs::SendWqe& wqe);

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_MESSAGE_LOCAL_OPERATION_H_
