// Multicast groups of UD identifiers. RoCE has no subnet administrator: a join is the network's
// (IGMP, MLD), and who is joined is known at once. The choices are Linux's.
#ifndef POLLUX_CM_CONNECTION_MULTICAST_H_
#define POLLUX_CM_CONNECTION_MULTICAST_H_

#include "absl/status/status.h"
#include "cm/connection/parts.h"

namespace pollux::cm {

// Owned by the manager, on its core.
class Multicast {
 public:
  explicit Multicast(Parts* parts) : parts_(*parts), context_(parts->context) {}

  absl::Status Join(Connection& connection, const Gid& group);
  absl::Status Leave(Connection& connection, const Gid& group);
  void LeaveAll(Connection& connection);
  // There is no queue pair any more that groups under way could be attached to.
  void OnQpReleased(const Connection& connection);

 private:
  absl::Status CheckJoin(const Connection& connection, const Gid& group) const;
  void OnJoined(Connection& connection, const Gid& group, const absl::Status& status);
  // OnJoined() in the next turn: there is no queue pair to attach.
  void DeferJoined(const Connection& connection, const Gid& group);

  Parts& parts_;
  Context& context_;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_MULTICAST_H_
