// Multicast groups of rdma_cm.
#include <cerrno>
#include <memory>

#include "compat/loader/export.h"
#include "compat/rdmacm/cm_address.h"
#include "compat/rdmacm/cm_id.h"
#include "compat/verbs/error_number.h"
#include "compat/verbs/queue_pair.h"

namespace pollux::compat {
namespace {

int Join(CmId* id, const sockaddr* address, void* context) {
  if (Runtime::IsCopy()) return -1;
  const std::optional<SocketAddress> group = ToEndpoint(address);
  if (!group) return Failed(EINVAL);
  {
    ScopedWorkerOwnership owned(id->runtime);
    if (!owned.Has(id)) return Failed(EINVAL);
    ReleaseMovedQp(owned, id);
    const absl::Status status = owned.manager().JoinMulticast(id->native, group->address);
    if (!status.ok()) return CmResult(status);
    id->groups[group->address] = std::make_shared<CmGroup>(context);
    owned.Poll();
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

// When this returns, no event of the group can be taken any more, and the program has acknowledged
// those that it took.
POLLUX_EXPORT int pollux_rdma_leave_multicast(rdma_cm_id* id, sockaddr* address) {
  if (Runtime::IsCopy()) return -1;
  const std::optional<SocketAddress> group = ToEndpoint(address);
  if (!group) return Failed(EINVAL);
  CmId* const mine = Of(id);
  absl::Status status;
  std::shared_ptr<CmGroup> left;
  {
    ScopedWorkerOwnership owned(mine->runtime);
    status = owned.manager().LeaveMulticast(mine->native, group->address);
    if (auto node = mine->groups.extract(group->address); !node.empty()) left = node.mapped();
    if (Qp* const member = MemberOf(*mine); left != nullptr && member != nullptr) {
      DetachFromGroup(owned, member, group->address).IgnoreError();  // may be already
    }
    Of(id->channel)->events.RemoveIf([&](const std::unique_ptr<CmEvent>& event) {
      return event->owner == mine && IsAboutGroup(*event) && GroupOf(*event) == group->address;
    });
    owned.Poll();
  }
  if (left != nullptr) {
    const auto* const last = static_cast<const CmEvent*>(mine->event);
    if (last != nullptr && last->group == left) AcknowledgeLast(mine);
    left->events_given.AwaitAll();
  }
  return CmResult(status);
}

}  // namespace pollux::compat
