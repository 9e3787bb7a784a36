// The queue pairs of a worker that are attached to multicast groups.
#ifndef POLLUX_STACK_ENGINE_OBJECTS_MULTICAST_GROUPS_H_
#define POLLUX_STACK_ENGINE_OBJECTS_MULTICAST_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "stack/base/types.h"
#include "stack/verbs/queue_pair.h"

namespace pollux::engine {

// Implements calls of Worker, which describes them.
class MulticastGroups {
 public:
  static constexpr uint32_t kMaxGroups = 256;  // an interface joins no more
  static constexpr uint32_t kMaxMembers = 64;  // per group: each gets a copy at once
  using Members = std::vector<verbs::QueuePair*>;

  absl::Status Attach(verbs::QueuePair* qp, const Gid& gid);
  absl::Status Detach(verbs::QueuePair* qp, const Gid& gid);
  // Detaches `qp` from every group.
  void Remove(verbs::QueuePair* qp);
  // Returns null if no queue pair is attached to the group.
  const Members* Find(const Gid& gid) const {
    const auto found = groups_.find(gid);
    return found == groups_.end() ? nullptr : &found->second;
  }
  size_t size() const { return groups_.size(); }

 private:
  std::map<Gid, Members> groups_;  // groups without members are erased
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_OBJECTS_MULTICAST_GROUPS_H_
