// The passive side of a connection: receives a REQ, sends the REP and receives the RTU.
#ifndef POLLUX_CM_CONNECTION_PASSIVE_SIDE_H_
#define POLLUX_CM_CONNECTION_PASSIVE_SIDE_H_

#include <optional>

#include "absl/status/status.h"
#include "cm/connection/parts.h"

namespace pollux::cm {

// Owned by the manager, on its core.
class PassiveSide {
 public:
  explicit PassiveSide(Parts* parts) : parts_(*parts), context_(parts->context) {}

  void Handle(const Origin& origin, const Req& req);
  void Handle(const Origin& origin, const Rtu& rtu);
  absl::Status Accept(CmConnection& connection, const ConnectionParam& param);
  absl::Status Reject(CmConnection& connection, absl::Span<const uint8_t> private_data,
                      RejectReason reason);
  void Notify(CmConnection& connection, ibv_event_type event);

 private:
  bool IsDuplicate(const Origin& origin, const Req& req);
  // Returns nothing if the request must not be rejected.
  std::optional<RejectReason> ReasonToReject(const Origin& origin, const Req& req) const;
  void TakeRequest(CmConnection& connection, const Req& req);
  void OnQpReady(CmConnection& connection, const absl::Status& status);
  Rep BuildRep(const CmConnection& connection, const ConnectionParam& param) const;

  Parts& parts_;
  Context& context_;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_PASSIVE_SIDE_H_
