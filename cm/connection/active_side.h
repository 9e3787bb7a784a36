// The side that connects: REQ out, REP in, RTU out.
#ifndef POLLUX_CM_CONNECTION_ACTIVE_SIDE_H_
#define POLLUX_CM_CONNECTION_ACTIVE_SIDE_H_

#include "absl/status/status.h"
#include "cm/connection/parts.h"

namespace pollux::cm {

// Owned by the manager, on its core.
class ActiveSide {
 public:
  explicit ActiveSide(Parts* parts) : parts_(*parts), context_(parts->context) {}

  absl::Status Connect(Connection& connection, const ConnectionParam& param);
  absl::Status Establish(Connection& connection);
  void Handle(const Origin& origin, const Rep& rep);
  // Whether `rej`, of a REQ, is answered by another REQ with the path MTU that it names, or is
  // about the REQ before that: in both cases it ends nothing.
  bool AskWithLowerMtu(const Origin& origin, Connection& connection, const Rej& rej);

 private:
  Req BuildReq(const Connection& connection, const ConnectionParam& param) const;
  void OnQpReady(Connection& connection, const absl::Status& status);
  void DeliverResponse(Connection& connection, rdma_cm_event_type type);  // what the REP said
  void SendRtu(const Connection& connection);

  Parts& parts_;
  Context& context_;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_ACTIVE_SIDE_H_
