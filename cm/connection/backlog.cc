#include "cm/connection/backlog.h"

#include <utility>

#include "stack/base/memory_reserve.h"

namespace pollux::cm {

CmConnection* Backlog::Enter(const Origin& origin, CmConnection& listener, uint16_t source_port) {
  if (!MemoryReserve::IsWhole()) return nullptr;
  CmConnection* connection = context_.NewConnection();
  if (connection == nullptr) return nullptr;
  connection->handler = listener.handler;
  connection->set_port_space(listener.port_space());
  connection->mutable_local() = {origin.to, listener.local().port};
  connection->mutable_peer() = {origin.from, source_port};
  connection->transaction_id = origin.transaction_id;
  connection->listener_comm_id = listener.local_comm_id;
  // The listener may end first, and another process must not reject a repetition of the request
  // then. The listener has the claim already, so this needs no descriptor.
  context_.table.ports().Claim(*connection).IgnoreError();
  connection->is_pending = true;
  ++pending_;
  ++listener.pending;
  return connection;
}

void Backlog::Leave(CmConnection& connection) {
  if (!std::exchange(connection.is_pending, false)) return;
  --pending_;
  // Its listener may have gone in between; numbers are not used twice while this one lives, but
  // for chance.
  CmConnection* listener = context_.table.Find(connection.listener_comm_id);
  if (listener != nullptr && listener->state == State::kListen) --listener->pending;
}

bool Backlog::AwaitListener(const Origin& origin, const std::optional<ServiceId>& service,
                            const Message& request) {
  context_.environment->Wake();
  return service && relisten_grace_.Keep({.from = origin.from,
                                          .to = origin.to,
                                          .transaction_id = origin.transaction_id,
                                          .service = *service,
                                          .message = request},
                                         context_.now_ns());
}

void Backlog::ListenerEnded(uint16_t port) {
  relisten_grace_.ListenerEnded(port, context_.now_ns());
  ForgetEndedListeners();
}

void Backlog::ForgetEndedListeners() {
  const uint64_t next_ns = relisten_grace_.ForgetDue(context_.now_ns());
  if (next_ns == RelistenGraceQueue::kNever) return;
  context_.environment->wheel().Arm(grace_timer_, next_ns);
}

void Backlog::OnGraceTimer(void* backlog, uint64_t /*now_ns*/) {
  static_cast<Backlog*>(backlog)->ForgetEndedListeners();
}

std::vector<HeldRequest> Backlog::TakeDue() {
  return relisten_grace_.TakeDue(context_.now_ns(), [this](const HeldRequest& request) {
    return context_.table.ports().FindListener(request.service, request.to) != nullptr;
  });
}

}  // namespace pollux::cm
