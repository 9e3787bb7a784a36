// Address handles to hosts that have been found.
#ifndef POLLUX_COMPAT_VERBS_RESOLVED_AH_H_
#define POLLUX_COMPAT_VERBS_RESOLVED_AH_H_

#include <infiniband/verbs.h>

#include "absl/status/statusor.h"
#include "compat/verbs/objects.h"
#include "stack/verbs/address_handle.h"

namespace pollux::compat {

// Nothing repeats what datagrams and unreliable connections send to a host whose link-layer address
// is not known yet, and only a few frames wait for it. Programs rely on the kernel here, which
// looks for the host in ibv_create_ah and ibv_modify_qp. Returns when the next hop is known. Errors
// as engine::Worker::CreateAh()'s; DeadlineExceeded when all requests for it stay unanswered. Not
// during a ScopedWorkerOwnership. The handle is the worker's, to be destroyed there.
absl::StatusOr<verbs::AddressHandle*> CreateResolvedAh(Pd* pd, const ibv_ah_attr& attr);

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_VERBS_RESOLVED_AH_H_
