// The verbs state machine of a queue pair: the possible transitions, and the attributes that each
// of them requires and allows. Source: IB specification table 96, ibv_modify_qp(3).
#ifndef POLLUX_STACK_VERBS_QP_STATE_H_
#define POLLUX_STACK_VERBS_QP_STATE_H_

#include <infiniband/verbs.h>

#include "absl/status/status.h"

namespace pollux::verbs {

// Returns "RTS" and so on.
const char* QpStateName(ibv_qp_state state);

// Checks a change of a queue pair of `type` in state `from`: the transition (to change.qp_state if
// the mask has IBV_QP_STATE; otherwise the state stays), the mask, and the range of each attribute.
// Returns InvalidArgument, which names what was requested and what is allowed.
absl::Status CheckModify(ibv_qp_type type, ibv_qp_state from, const ibv_qp_attr& change, int mask);

}  // namespace pollux::verbs

#endif  // POLLUX_STACK_VERBS_QP_STATE_H_
