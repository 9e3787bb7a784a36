#include "cm/connection/established.h"

namespace pollux::cm {

void Established::Enter(CmConnection& connection) {
  half_open_.Leave(connection);
  // The peer will not repeat its request.
  if (!connection.has_port) context_.table.ports().ReleaseClaim(connection);
  connection.state = State::kEstablished;
  teardown_.KeepDreq(connection);
  others_.TellOfPeersQp(connection);
}

void Established::OnPeerQpTaken(const PeerQpTaken& taken) {
  CmConnection* const old = context_.table.FindByPeerQpn(taken.peer, taken.ca_guid, taken.qpn);
  if (old == nullptr || old->created_ns >= taken.at_ns) return;
  teardown_.EndStale(*old);
}

void Established::Handle(const Origin& origin, const Lap& lap) {
  Apr apr;
  apr.local_comm_id = lap.remote_comm_id;
  apr.remote_comm_id = lap.local_comm_id;
  apr.ap_status = context_.FindFor(origin, lap.local_comm_id, lap.remote_comm_id) != nullptr
                      ? kAprStatusUnsupported
                      : kAprStatusInvalidCommId;
  sender_.Send(origin, apr);
}

}  // namespace pollux::cm
