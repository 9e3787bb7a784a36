// Queue pairs, for code that creates them on a program's behalf (rdma_cm).
#ifndef POLLUX_COMPAT_VERBS_QUEUE_PAIR_H_
#define POLLUX_COMPAT_VERBS_QUEUE_PAIR_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "compat/verbs/objects.h"

namespace pollux::compat {

// As ibv_create_qp(): returns null and sets errno on an error. With `send_ops`
// (ibv_qp_create_send_ops_flags) the queue pair supports ibv_wr_*(3). Not during a
// ScopedWorkerOwnership.
Qp* CreateQp(ibv_pd* pd, ibv_qp_init_attr* init, uint64_t send_ops);
// The `send_ops` of a queue pair with these attributes. Nothing, with errno EOPNOTSUPP, if they ask
// for an operation or a feature that is not implemented.
std::optional<uint64_t> SendOpsOf(const ibv_qp_init_attr_ex& init);
// Detaches the queue pair from the group, and ends the membership of the interface that
// ibv_attach_mcast(3) began. Errors as Worker::DetachMulticast().
absl::Status DetachFromGroup(ScopedWorkerOwnership& owned, Qp* qp, const Gid& group);
// As ibv_destroy_qp: 0 or an errno. Not during a ScopedWorkerOwnership.
int DestroyQp(Qp* qp);

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_VERBS_QUEUE_PAIR_H_
