#include "cm/connection/handover.h"

#include <utility>
#include <variant>

#include "cm/connection/manager_impl.h"

namespace pollux::cm {

bool ManagerImpl::PassOn(const Origin& origin, const Message& message) {
  const Shard shard = environment_->shard();
  Route route = origin.route;
  if (++route.tried >= shard.count) return false;
  HandOver(shard.Next(), origin, route, message);
  return true;
}

bool ManagerImpl::SendHome(const Origin& origin, const CmConnection& listener,
                           const Message& message) {
  const Shard shard = environment_->shard();
  if (listener.placement != Placement::kByClient || origin.route.from_home) return false;
  const uint32_t home = shard.HomeOf(origin.from);
  if (home == shard.index) return false;
  HandOver(home, origin, {.tried = 0, .from_home = true}, message);
  return true;
}

void ManagerImpl::HandOver(uint32_t to, const Origin& origin, Route route, const Message& message) {
  const bool posted = environment_->Post(
      to,
      [handover = Handover{.from = origin.from,
                           .to = origin.to,
                           .transaction_id = origin.transaction_id,
                           .route = route,
                           .message = message}](Client& manager) { manager.OnHandover(handover); });
  if (!posted) CountDrop(MadDrop::kHandoverFull);  // its sender asks again
}

void ManagerImpl::OnHandover(const Handover& handover) {
  DeliverDeferred();  // before what comes after it
  const Origin origin{handover.from, handover.to, handover.transaction_id, handover.route};
  std::visit([&](const auto& message) { Handle(origin, message); }, handover.message);
}

void ManagerImpl::EnterEstablished(CmConnection& connection) {
  connection.state = State::kEstablished;
  const Shard shard = environment_->shard();
  const PeerQpTaken taken{.from = connection.peer().address,
                          .to = connection.local().address,
                          .ca_guid = connection.remote_ca_guid,
                          .qpn = connection.remote_qpn,
                          .at_ns = environment_->now_ns()};
  for (uint32_t other = 0; other < shard.count; ++other) {
    if (other == shard.index) continue;
    const bool posted =
        environment_->Post(other, [taken](Client& manager) { manager.OnPeerQpTaken(taken); });
    // Then a stale connection ends when its user or its retries find out.
    if (!posted) CountDrop(MadDrop::kHandoverFull);
  }
}

void ManagerImpl::OnPeerQpTaken(const PeerQpTaken& taken) {
  CmConnection* const old = table_.FindByPeerQpn(taken.ca_guid, taken.qpn);
  if (old == nullptr || old->created_ns >= taken.at_ns) return;
  EndStale({taken.from, taken.to, 0}, *old);
}

}  // namespace pollux::cm
