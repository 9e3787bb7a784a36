// Message receipt acknowledgements: one side asks the other for more time. Source: IB specification
// volume 1, section 12.6.6.
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

  absl::Status Ask(const Connection& connection, uint8_t service_timeout);
  // Asks the peer of a REQ or REP that this side still works on not to send it again for so long.
  // Only for connections in kReqRcvd, kRepPending and kRepRcvd.
  void AskForTime(const Connection& connection, uint8_t service_timeout);
  void Handle(const Origin& origin, const Mra& mra);

 private:
  Context& context_;
  Sender& sender_;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_MRA_EXCHANGE_H_
