// Connections that are up.
#ifndef POLLUX_CM_CONNECTION_ESTABLISHED_H_
#define POLLUX_CM_CONNECTION_ESTABLISHED_H_

#include "cm/connection/context.h"
#include "cm/connection/half_open.h"
#include "cm/connection/other_managers.h"
#include "cm/connection/sender.h"
#include "cm/connection/teardown.h"

namespace pollux::cm {

// Owned by the manager, on its core.
class Established {
 public:
  Established(Context* context, Sender* sender, OtherManagers* others, HalfOpen* half_open,
              Teardown* teardown)
      : context_(*context),
        sender_(*sender),
        others_(*others),
        half_open_(*half_open),
        teardown_(*teardown) {}

  // Tells the other managers whose queue pair it is connected with.
  void Enter(Connection& connection);
  // What another manager has told of a connection that it has established.
  void OnPeerQpTaken(const PeerQpTaken& taken);
  // Alternate paths are declined.
  void Handle(const Origin& origin, const Lap& lap);

 private:
  Context& context_;
  Sender& sender_;
  OtherManagers& others_;
  HalfOpen& half_open_;
  Teardown& teardown_;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_ESTABLISHED_H_
