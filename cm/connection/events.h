// Delivers events to the users of identifiers.
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

  // Calls the handler. It may do anything to the connection, so the caller must not use the
  // connection afterwards. Must not be called while a call of the user is in progress.
  void Deliver(CmConnection& connection, Event event);
  void Deliver(CmConnection& connection, rdma_cm_event_type type, int status = 0);

  // Runs `work` in the next turn, or before the next message is handled, if the connection still
  // exists.
  void Defer(const CmConnection& connection, absl::AnyInvocable<void(CmConnection&)> work);
  void Defer(const CmConnection& connection, rdma_cm_event_type type, int status = 0);
  bool DeliverDeferred();  // returns whether there were any
  bool empty() const { return deferred_.empty(); }

  // See Manager::SetFailureHandler().
  void SetFailureHandler(FailureHandler handler) { on_failure_ = std::move(handler); }
  void TellFailure(CmConnection& connection, const std::string& why);
  void OnQpFailed(Qpn qpn, ibv_wc_status status, std::vector<transport::FlightEntry> flight);

 private:
  struct Deferred {
    uint32_t comm_id;
    absl::AnyInvocable<void(CmConnection&)> work;
  };
  void Record(CmConnection& connection, const Event& event);

  Context& context_;
  std::deque<Deferred> deferred_;
  FailureHandler on_failure_;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_EVENTS_H_
