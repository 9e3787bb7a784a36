// Message receipt acknowledgements (MRA), by which one side asks the other for more time. Source:
// IB specification volume 1, section 12.6.6.
#ifndef POLLUX_CM_CONNECTION_MRA_EXCHANGE_H_
#define POLLUX_CM_CONNECTION_MRA_EXCHANGE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "cm/connection/context.h"
#include "cm/connection/sender.h"

namespace pollux::cm {

// Owned by the manager, on its core.
class MraExchange {
 public:
  MraExchange(Context* context, Sender* sender) : context_(*context), sender_(*sender) {}

  absl::Status Ask(const CmConnection& connection, uint8_t service_timeout);
  // Asks the peer, whose REQ or REP this side is still handling, not to repeat it for
  // `service_timeout`. Only for connections in kReqRcvd, kRepPending and kRepRcvd.
  void AskForTime(const CmConnection& connection, uint8_t service_timeout);
  void Handle(const Origin& origin, const Mra& mra);

 private:
  Context& context_;
  Sender& sender_;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_MRA_EXCHANGE_H_
