// The active side of a connection: sends a REQ, receives the REP and sends the RTU.
#ifndef POLLUX_CM_CONNECTION_ACTIVE_SIDE_H_
#define POLLUX_CM_CONNECTION_ACTIVE_SIDE_H_

#include "absl/status/status.h"
#include "cm/connection/parts.h"

namespace pollux::cm {

// Owned by the manager, on its core.
class ActiveSide {
 public:
  explicit ActiveSide(Parts* parts) : parts_(*parts), context_(parts->context) {}

  absl::Status Connect(CmConnection& connection, const ConnectionParam& param);
  absl::Status Establish(CmConnection& connection);
  void Handle(const Origin& origin, const Rep& rep);
  // Handles a REJ of a REQ that names a lower path MTU. Returns true if the connection continues:
  // the REQ is now sent again with that MTU, or `rej` is a duplicate of the REJ that caused an
  // earlier repetition.
  bool AskWithLowerMtu(const Origin& origin, CmConnection& connection, const Rej& rej);

 private:
  Req BuildReq(const CmConnection& connection, const ConnectionParam& param) const;
  void OnQpReady(CmConnection& connection, const absl::Status& status);
  // with the REP's parameters
  void DeliverResponse(CmConnection& connection, rdma_cm_event_type type);
  void SendRtu(const CmConnection& connection);

  Parts& parts_;
  Context& context_;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_ACTIVE_SIDE_H_
