// What the users of identifiers are told, and when.
#ifndef POLLUX_CM_CONNECTION_EVENTS_H_
#define POLLUX_CM_CONNECTION_EVENTS_H_

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "cm/connection/context.h"
#include "cm/connection/id.h"
#include "stack/transport/diagnostics/flight_recorder.h"

namespace pollux::cm {

// Owned by the manager, on its core.
class Events {
 public:
  explicit Events(Context* context) : context_(*context) {}

  // The last thing that is done to a connection in a turn: the handler may do anything. Never from
  // inside a call of the user's.
  void Deliver(Connection& connection, Event event);
  void Deliver(Connection& connection, rdma_cm_event_type type, int status = 0);

  // In the next turn, or before the next message is acted on, if the connection is still there.
  void Defer(const Connection& connection, absl::AnyInvocable<void(Connection&)> work);
  void Defer(const Connection& connection, rdma_cm_event_type type, int status = 0);
  bool DeliverDeferred();  // whether there were any
  bool empty() const { return deferred_.empty(); }

  // See Manager::SetFailureHandler().
  void SetFailureHandler(FailureHandler handler) { on_failure_ = std::move(handler); }
  void TellFailure(Connection& connection, const std::string& why);
  void OnQpFailed(Qpn qpn, ibv_wc_status status, std::vector<transport::FlightEntry> flight);

 private:
  struct Deferred {
    uint32_t comm_id;
    absl::AnyInvocable<void(Connection&)> work;
  };
  void Record(Connection& connection, const Event& event);

  Context& context_;
  std::deque<Deferred> deferred_;
  FailureHandler on_failure_;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_EVENTS_H_
