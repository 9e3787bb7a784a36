// Multicast groups of UD identifiers. RoCE has no subnet administrator: IGMP and MLD
// announce a join, and its result is known at once, as in Linux.
#ifndef POLLUX_CM_CONNECTION_MULTICAST_H_
#define POLLUX_CM_CONNECTION_MULTICAST_H_

#include "absl/status/status.h"
#include "cm/connection/parts.h"

namespace pollux::cm {

// Owned by the manager, on its core.
class Multicast {
 public:
  explicit Multicast(Parts* parts) : parts_(*parts), context_(parts->context) {}

  absl::Status Join(CmConnection& connection, const Gid& group);
  absl::Status Leave(CmConnection& connection, const Gid& group);
  void LeaveAll(CmConnection& connection);
  // Completes the joins in progress without a queue pair, since there is none any more.
  void OnQpReleased(const CmConnection& connection);

 private:
  absl::Status CheckJoin(const CmConnection& connection, const Gid& group) const;
  void OnJoined(CmConnection& connection, const Gid& group, const absl::Status& status);
  // Calls OnJoined() in the next turn, for an identifier without a queue pair to attach.
  void DeferJoined(const CmConnection& connection, const Gid& group);

  Parts& parts_;
  Context& context_;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_MULTICAST_H_
