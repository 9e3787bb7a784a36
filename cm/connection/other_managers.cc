#include "cm/connection/other_managers.h"

namespace pollux::cm {

bool OtherManagers::PassOn(const Origin& origin, const Message& message) {
  const Shard shard = context_.environment->shard();
  Route route = origin.route;
  if (++route.tried >= shard.count) return false;
  HandOver(shard.Next(), origin, route, message);
  return true;
}

bool OtherManagers::SendHome(const Origin& origin, const Connection& listener,
                             const Message& message) {
  const Shard shard = context_.environment->shard();
  if (listener.placement != Placement::kByClient || origin.route.from_home) return false;
  const uint32_t home = shard.HomeOf(origin.from);
  if (home == shard.index) return false;
  HandOver(home, origin, {.tried = 0, .from_home = true}, message);
  return true;
}

void OtherManagers::HandOver(uint32_t to, const Origin& origin, Route route,
                             const Message& message) {
  const bool posted = context_.environment->Post(
      to, [handover = Handover{.from = origin.from,
                               .to = origin.to,
                               .transaction_id = origin.transaction_id,
                               .route = route,
                               .message = message}](Environment::Client& manager) {
        manager.OnHandover(handover);
      });
  if (!posted) context_.CountDrop(MadDrop::kHandoverFull);  // its sender asks again
}

void OtherManagers::TellOfPeersQp(const Connection& connection) {
  const Shard shard = context_.environment->shard();
  const PeerQpTaken taken{.peer = connection.peer().address,
                          .ca_guid = connection.remote_ca_guid,
                          .qpn = connection.remote_qpn,
                          .at_ns = context_.now_ns()};
  for (uint32_t other = 0; other < shard.count; ++other) {
    if (other == shard.index) continue;
    const bool posted = context_.environment->Post(
        other, [taken](Environment::Client& manager) { manager.OnPeerQpTaken(taken); });
    // Then a stale connection ends when its user or its retries find out.
    if (!posted) context_.CountDrop(MadDrop::kHandoverFull);
  }
}

}  // namespace pollux::cm
