// Multicast groups of rdma_cm.
#include <cerrno>

#include "abi/cm_address.h"
#include "abi/cm_id.h"
#include "abi/error_number.h"
#include "abi/export.h"

namespace pollux::abi {
namespace {

int Join(CmId* id, const sockaddr* address, void* context) {
  const std::optional<cm::Endpoint> group = ToEndpoint(address);
  if (!group) return Failed(EAFNOSUPPORT);
  {
    Turn turn(id->world);
    const absl::Status status = turn.manager().JoinMulticast(id->native, group->address);
    if (!status.ok()) return CmResult(status);
    id->groups[group->address] = context;
    turn.Poll();
  }
  return Complete(id);
}

}  // namespace

POLLUX_EXPORT int pollux_rdma_join_multicast(rdma_cm_id* id, sockaddr* address, void* context) {
  return Join(Of(id), address, context);
}

POLLUX_EXPORT int pollux_rdma_join_multicast_ex(rdma_cm_id* id, rdma_cm_join_mc_attr_ex* attr,
                                                void* context) {
  constexpr uint32_t kMask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
  if ((attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS) == 0) return Failed(EINVAL);
  const bool full_member = (attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS) == 0 ||
                           attr->join_flags == RDMA_MC_JOIN_FLAG_FULLMEMBER;
  if ((attr->comp_mask & ~kMask) != 0 || !full_member) return Failed(EOPNOTSUPP);
  return Join(Of(id), attr->addr, context);
}

POLLUX_EXPORT int pollux_rdma_leave_multicast(rdma_cm_id* id, sockaddr* address) {
  const std::optional<cm::Endpoint> group = ToEndpoint(address);
  if (!group) return Failed(EAFNOSUPPORT);
  Turn turn(Of(id)->world);
  const absl::Status status = turn.manager().LeaveMulticast(Of(id)->native, group->address);
  Of(id)->groups.erase(group->address);
  turn.Poll();
  return CmResult(status);
}

}  // namespace pollux::abi
