// The verbs state machine of a queue pair: which transitions there are, and which attributes each
// needs and allows. Source: IB specification table 96, ibv_modify_qp(3).
#ifndef POLLUX_STACK_VERBS_QP_STATE_H_
#define POLLUX_STACK_VERBS_QP_STATE_H_

#include <infiniband/verbs.h>

#include "absl/status/status.h"

namespace pollux::verbs {

// "RTS" and so on.
const char* QpStateName(ibv_qp_state state);

// Checks a change of a queue pair of `type` in state `from`: the transition (to change.qp_state
// when the mask has IBV_QP_STATE, else staying), the mask, and each attribute's range. Errors:
// InvalidArgument naming what was asked and what is allowed.
absl::Status CheckModify(ibv_qp_type type, ibv_qp_state from, const ibv_qp_attr& change, int mask);

}  // namespace pollux::verbs

#endif  // POLLUX_STACK_VERBS_QP_STATE_H_
