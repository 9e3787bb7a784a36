// Address handles whose next hop is resolved.
#ifndef POLLUX_COMPAT_VERBS_RESOLVED_AH_H_
#define POLLUX_COMPAT_VERBS_RESOLVED_AH_H_

#include <infiniband/verbs.h>

#include "absl/status/statusor.h"
#include "compat/verbs/objects.h"
#include "stack/verbs/address_handle.h"

namespace pollux::compat {

// `attr` with hop_limit 0, for which the stack takes 64. For RoCEv2, Linux ignores a program's hop
// limit, too (it takes the route's), so programs give any (ibv_rc_pingpong 1) and reach peers
// behind routers. Groups keep the program's hop limit, as in Linux.
ibv_ah_attr WithDefaultHopLimit(ibv_ah_attr attr);

// UD and UC queue pairs do not repeat packets, and only a few frames can wait until the link-layer
// address of a host is known. Programs rely on the kernel, which resolves it in ibv_create_ah() and
// ibv_modify_qp(). This function returns when the next hop is resolved. Errors as
// engine::Worker::CreateAh(); DeadlineExceeded if no request for it is answered. Not during a
// ScopedWorkerOwnership. The handle belongs to the worker and must be destroyed there.
absl::StatusOr<verbs::AddressHandle*> CreateResolvedAh(Pd* pd, const ibv_ah_attr& attr);

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_VERBS_RESOLVED_AH_H_
