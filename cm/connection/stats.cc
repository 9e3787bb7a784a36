// What CM tells of itself and its connections: when it is asked, and when one fails.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cm/connection/flight_text.h"
#include "cm/connection/manager_impl.h"
#include "stack/transport/diagnostics/flight_text.h"

namespace pollux::cm {
namespace {

using transport::FlightEntry;

const char* PortSpaceName(rdma_port_space port_space) {
  return port_space == RDMA_PS_TCP   ? "RDMA_PS_TCP"
         : port_space == RDMA_PS_UDP ? "RDMA_PS_UDP"
                                     : "RDMA_PS_IB";
}

// Of a REJ; no other message has one.
template <class T>
uint16_t ReasonOf(const T& message) {
  if constexpr (requires { message.reason; }) {
    return message.reason;
  } else {
    return 0;
  }
}

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

void ManagerImpl::RecordMad(CmConnection& connection, transport::FlightKind kind,
                            Attribute attribute, uint16_t detail) {
  connection.recorder.Note(kind, static_cast<uint8_t>(attribute), detail, environment_->now_ns());
}

void ManagerImpl::RecordReceived(const Gid& peer, const Message& message) {
  std::visit(
      [&](const auto& received) {
        if constexpr (requires { received.remote_comm_id; }) {
          CmConnection* const connection = table_.Find(received.remote_comm_id);
          if (connection == nullptr || connection->peer().address != peer) return;
          RecordMad(*connection, kFlightMadReceived, received.kAttribute, ReasonOf(received));
        }
      },
      message);
}

void ManagerImpl::RecordSent(const Message& message) {
  std::visit(
      [&](const auto& sent) {
        if constexpr (requires { sent.local_comm_id; }) {
          CmConnection* const connection = table_.Find(sent.local_comm_id);
          if (connection == nullptr) return;
          RecordMad(*connection, kFlightMadSent, sent.kAttribute, ReasonOf(sent));
        }
      },
      message);
}

void ManagerImpl::RecordEvent(CmConnection& connection, const Event& event) {
  connection.recorder.Note(kFlightEvent, static_cast<uint8_t>(event.type),
                           static_cast<uint16_t>(std::abs(event.status)), environment_->now_ns());
  if (IsFailure(event)) TellFailure(connection, Why(event));
}

void ManagerImpl::TellFailure(CmConnection& connection, const std::string& why) {
  if (on_failure_ == nullptr || connection.failure_told) return;
  connection.failure_told = true;
  on_failure_(connection, why);
}

void ManagerImpl::OnQpFailed(Qpn qpn, ibv_wc_status status, std::vector<FlightEntry> flight) {
  if (on_failure_ == nullptr) return;
  CmConnection* const connection = table_.FindByQpn(qpn);
  if (connection == nullptr) return;
  connection->failed_flight = std::move(flight);
  TellFailure(*connection, status == IBV_WC_SUCCESS ? "a request of the peer was refused"
                                                    : absl::StrCat("a work request failed: ",
                                                                   ibv_wc_status_str(status)));
}

std::string ManagerImpl::FlightLog(const Id& id) const {
  const auto& connection = static_cast<const CmConnection&>(id);
  std::vector<FlightEntry> entries = connection.recorder.Entries();
  if (!connection.destroyed && connection.qp() != nullptr) {
    std::vector<FlightEntry> of_qp = environment_->QpFlight(connection.qp_owner(), connection.qp());
    if (of_qp.empty()) of_qp = connection.failed_flight;
    entries.insert(entries.end(), of_qp.begin(), of_qp.end());
  }
  std::ranges::stable_sort(entries, {}, &FlightEntry::time_ns);
  return transport::FlightLog(entries, environment_->now_ns(), FlightText);
}

bool ManagerImpl::OnStatsQuery(const StatsQuery& query, Stats* stats) {
  if (query.topic == "cm") {
    counters().Visit([&](std::string_view name, uint64_t value) { stats->Count(name, value); });
    return true;
  }
  if (query.topic == "worker") {
    uint64_t connected = 0;
    table_.Visit([&](const CmConnection& one) { connected += one.state == State::kEstablished; });
    stats->Set("connections", connected);
    return true;
  }
  if (query.topic == "connections") {
    ListConnections(static_cast<uint32_t>(query.object.value_or(0)), stats);
    return true;
  }
  if (query.topic != "connection" || query.object.value_or(0) > UINT32_MAX) return false;
  const CmConnection* connection = table_.Find(static_cast<uint32_t>(query.object.value_or(0)));
  if (connection != nullptr) DescribeConnection(*connection, stats);
  return connection != nullptr;
}

// The communication IDs after `after`, in order: they are drawn at random.
void ManagerImpl::ListConnections(uint32_t after, Stats* stats) const {
  std::vector<uint32_t> ids;
  table_.Visit([&](const CmConnection& connection) {
    if (connection.local_comm_id > after) ids.push_back(connection.local_comm_id);
  });
  const size_t count = std::min(ids.size(), Stats::kMaxItems);
  std::ranges::partial_sort(ids, ids.begin() + static_cast<ptrdiff_t>(count));
  stats->BeNumbers();
  for (size_t i = 0; i < count; ++i) stats->AddNumber(ids[i]);
}

void ManagerImpl::DescribeConnection(const CmConnection& connection, Stats* stats) const {
  const auto number = [&](const char* name, uint64_t value) { stats->Set(name, value); };
  number("comm_id", connection.local_comm_id);
  number("peer_comm_id", connection.remote_comm_id);
  stats->Set("state", std::string(StateName(connection.state)));
  stats->Set("port_space", std::string(PortSpaceName(connection.port_space())));
  stats->Set("local", ToString(connection.local()));
  stats->Set("peer", ToString(connection.peer()));
  number("qpn", connection.local_qpn);
  number("peer_qpn", connection.remote_qpn);
  number("path_mtu", 128u << connection.path_mtu);
  number("age_ms", (environment_->now_ns() - connection.created_ns) / 1'000'000);
  number("responder_resources", connection.responder_resources);
  number("initiator_depth", connection.initiator_depth);
  number("retry_count", connection.retry_count);
  number("rnr_retry_count", connection.rnr_retry_count);
  number("ack_timeout", connection.ack_timeout);
}

}  // namespace pollux::cm
