#include "cm/connection/events.h"

#include <cstdlib>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "cm/connection/flight_text.h"
#include "cm/wire/reasons.h"
#include "stack/base/probe.h"

namespace pollux::cm {
namespace {

// A peer that says no has answered; what else it rejects for is nobody's intention.
bool IsFailure(const Event& event) {
  switch (event.type) {
    case RDMA_CM_EVENT_CONNECT_ERROR:
      return true;
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_DISCONNECTED:
      return event.status < 0;
    case RDMA_CM_EVENT_REJECTED:
      return event.status != static_cast<int>(RejectReason::kConsumerDefined) &&
             event.status != static_cast<int>(RejectReason::kInvalidServiceId);
    default:
      return false;
  }
}

std::string Why(const Event& event) {
  std::string why = rdma_event_str(event.type);
  if (event.type == RDMA_CM_EVENT_REJECTED) {
    absl::StrAppend(&why, " (", RejectReasonName(static_cast<uint16_t>(event.status)), ")");
  } else if (event.status < 0) {
    absl::StrAppend(&why, " (", std::strerror(-event.status), ")");
  }
  return why;
}

}  // namespace

void Events::Deliver(CmConnection& connection, Event event) {
  if (connection.destroyed) return;
  if (connection.failed && event.type == RDMA_CM_EVENT_DISCONNECTED) return;
  Record(connection, event);
  probe::CmEvent(event.type, event.status, connection.local_qpn, connection.remote_qpn);
  if (event.id == nullptr) event.id = &connection;
  // Held, since the handler may replace itself.
  const std::shared_ptr<EventHandler> handler = connection.handler;
  (*handler)(event);
}

void Events::Deliver(CmConnection& connection, rdma_cm_event_type type, int status) {
  Deliver(connection, {.type = type, .status = status});
}

void Events::Defer(const CmConnection& connection, absl::AnyInvocable<void(CmConnection&)> work) {
  deferred_.push_back({connection.local_comm_id, std::move(work)});
  context_.environment->Wake();
}

void Events::Defer(const CmConnection& connection, rdma_cm_event_type type, int status) {
  Defer(connection, [this, type, status](CmConnection& one) { Deliver(one, type, status); });
}

// What handlers add is for the next turn, so that a poll ends.
bool Events::DeliverDeferred() {
  const bool any = !deferred_.empty();
  for (size_t n = deferred_.size(); n > 0; --n) {
    Deferred deferred = std::move(deferred_.front());
    deferred_.pop_front();
    CmConnection* const connection = context_.table.Find(deferred.comm_id);
    if (connection != nullptr) deferred.work(*connection);
  }
  return any;
}

void Events::Record(CmConnection& connection, const Event& event) {
  connection.recorder.Note(kFlightEvent, static_cast<uint8_t>(event.type),
                           static_cast<uint16_t>(std::abs(event.status)), context_.now_ns());
  if (IsFailure(event)) TellFailure(connection, Why(event));
}

void Events::TellFailure(CmConnection& connection, const std::string& why) {
  if (on_failure_ == nullptr || connection.failure_told) return;
  connection.failure_told = true;
  on_failure_(connection, why);
}

void Events::OnQpFailed(Qpn qpn, ibv_wc_status status, std::vector<transport::FlightEntry> flight) {
  if (on_failure_ == nullptr) return;
  CmConnection* const connection = context_.table.FindByQpn(qpn);
  if (connection == nullptr) return;
  connection->failed_flight = std::move(flight);
  TellFailure(*connection, status == IBV_WC_SUCCESS ? "a request of the peer was refused"
                                                    : absl::StrCat("a work request failed: ",
                                                                   ibv_wc_status_str(status)));
}

}  // namespace pollux::cm
