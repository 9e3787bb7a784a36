// Established connections.
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

  // Marks the connection as established and informs the other managers of the peer's queue pair.
  void Enter(CmConnection& connection);
  // Handles such information from another manager: ends an older connection to the same queue pair.
  void OnPeerQpTaken(const PeerQpTaken& taken);
  // Declines the alternate path.
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
