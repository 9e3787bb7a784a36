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

  // To the next manager; false when all have had it, of those that a round is made of.
  bool PassOn(const Origin& origin, const Message& message);
  // To the manager that `listener` wants all of its client's requests to be answered by; false when
  // that is this one.
  bool SendHome(const Origin& origin, const Connection& listener, const Message& message);
  // Whose queue pair the connection, just established, is connected with.
  void TellOfPeersQp(const Connection& connection);

 private:
  void HandOver(uint32_t to, const Origin& origin, Route route, const Message& message);

  Context& context_;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_OTHER_MANAGERS_H_
