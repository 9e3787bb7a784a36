#include "stack/engine/objects/multicast_groups.h"

#include <algorithm>

#include "stack/engine/objects/object_table.h"
#include "stack/ip/groups.h"

namespace pollux::engine {

static_assert(MulticastGroups::kMaxGroups == ip::Groups::kMaxGroups);

absl::Status MulticastGroups::Attach(verbs::QueuePair* qp, const Gid& gid) {
  if (qp == nullptr || qp->type() != IBV_QPT_UD) {
    return absl::InvalidArgumentError("multicast: only UD queue pairs can be attached");
  }
  const bool group = gid.IsIpv4() ? gid.Ipv4() >> 28 == 0xE : gid.raw[0] == 0xFF;
  if (!group) return absl::InvalidArgumentError("multicast: not the address of a group");
  const auto found = groups_.find(gid);
  if (found == groups_.end()) {
    if (groups_.size() >= kMaxGroups) return Full("multicast group", kMaxGroups);
    groups_[gid].push_back(qp);
    return absl::OkStatus();
  }
  Members& members = found->second;
  if (std::find(members.begin(), members.end(), qp) != members.end()) return absl::OkStatus();
  if (members.size() >= kMaxMembers) return Full("place in the multicast group", kMaxMembers);
  members.push_back(qp);
  return absl::OkStatus();
}

absl::Status MulticastGroups::Detach(verbs::QueuePair* qp, const Gid& gid) {
  const auto found = groups_.find(gid);
  if (found == groups_.end() || std::erase(found->second, qp) == 0) {
    return absl::NotFoundError("multicast: the queue pair is not attached to this group");
  }
  if (found->second.empty()) groups_.erase(found);
  return absl::OkStatus();
}

void MulticastGroups::Remove(verbs::QueuePair* qp) {
  for (auto& [gid, members] : groups_) std::erase(members, qp);
  std::erase_if(groups_, [](const auto& group) { return group.second.empty(); });
}

}  // namespace pollux::engine
