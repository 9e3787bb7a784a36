// The managers of the device's other workers.
#ifndef POLLUX_CM_CONNECTION_OTHER_MANAGERS_H_
#define POLLUX_CM_CONNECTION_OTHER_MANAGERS_H_

#include <cstdint>

#include "cm/connection/context.h"
#include "cm/connection/handover.h"

namespace pollux::cm {

// Owned by the manager, on its core.
class OtherManagers {
 public:
  explicit OtherManagers(Context* context) : context_(*context) {}

  // Passes a message on to the next manager. Returns false if it has been at each manager in this
  // round.
  bool PassOn(const Origin& origin, const Message& message);
  // Passes a message to the client's home manager if `listener` uses Placement::kByClient. Returns
  // false if this manager must handle it itself.
  bool SendHome(const Origin& origin, const CmConnection& listener, const Message& message);
  // Informs the other managers of the peer's queue pair in a connection that was just established.
  void TellOfPeersQp(const CmConnection& connection);

 private:
  void HandOver(uint32_t to, const Origin& origin, Route route, const Message& message);

  Context& context_;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_OTHER_MANAGERS_H_
