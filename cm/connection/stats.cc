#include "cm/connection/stats.h"

#include <algorithm>
#include <string>
#include <vector>

#include "cm/connection/flight_text.h"
#include "stack/transport/diagnostics/flight_text.h"

namespace pollux::cm {
namespace {

using transport::FlightEntry;

const char* PortSpaceName(rdma_port_space port_space) {
  return port_space == RDMA_PS_TCP   ? "RDMA_PS_TCP"
         : port_space == RDMA_PS_UDP ? "RDMA_PS_UDP"
                                     : "RDMA_PS_IB";
}

}  // namespace

std::string Statistics::FlightLog(const Connection& connection) const {
  std::vector<FlightEntry> entries = connection.recorder.Entries();
  if (!connection.destroyed && connection.qp() != nullptr) {
    std::vector<FlightEntry> of_qp =
        context_.environment->QpFlight(connection.qp_owner(), connection.qp());
    if (of_qp.empty()) of_qp = connection.failed_flight;
    entries.insert(entries.end(), of_qp.begin(), of_qp.end());
  }
  std::ranges::stable_sort(entries, {}, &FlightEntry::time_ns);
  return transport::FlightLog(entries, context_.now_ns(), FlightText);
}

bool Statistics::Tell(const Question& question, Report* report) const {
  if (question.topic == "cm") {
    context_.environment->counters().Visit(
        [&](std::string_view name, uint64_t value) { report->Count(name, value); });
    return true;
  }
  if (question.topic == "worker") {
    uint64_t connected = 0;
    context_.table.Visit(
        [&](const Connection& one) { connected += one.state == State::kEstablished; });
    report->Set("connections", connected);
    return true;
  }
  if (question.topic == "connections") {
    ListConnections(static_cast<uint32_t>(question.object.value_or(0)), report);
    return true;
  }
  if (question.topic != "connection" || question.object.value_or(0) > UINT32_MAX) return false;
  const Connection* connection =
      context_.table.Find(static_cast<uint32_t>(question.object.value_or(0)));
  if (connection != nullptr) DescribeConnection(*connection, report);
  return connection != nullptr;
}

// The communication IDs after `after`, in order: they are drawn at random.
void Statistics::ListConnections(uint32_t after, Report* report) const {
  std::vector<uint32_t> ids;
  context_.table.Visit([&](const Connection& connection) {
    if (connection.local_comm_id > after) ids.push_back(connection.local_comm_id);
  });
  const size_t count = std::min(ids.size(), Report::kMaxItems);
  std::ranges::partial_sort(ids, ids.begin() + static_cast<ptrdiff_t>(count));
  report->BeNumbers();
  for (size_t i = 0; i < count; ++i) report->AddNumber(ids[i]);
}

void Statistics::DescribeConnection(const Connection& connection, Report* report) const {
  const auto number = [&](const char* name, uint64_t value) { report->Set(name, value); };
  number("comm_id", connection.local_comm_id);
  number("peer_comm_id", connection.remote_comm_id);
  report->Set("state", std::string(StateName(connection.state)));
  report->Set("port_space", std::string(PortSpaceName(connection.port_space())));
  report->Set("local", ToString(connection.local()));
  report->Set("peer", ToString(connection.peer()));
  number("qpn", connection.local_qpn);
  number("peer_qpn", connection.remote_qpn);
  number("path_mtu", 128u << connection.path_mtu);
  number("age_ms", (context_.now_ns() - connection.created_ns) / 1'000'000);
  number("responder_resources", connection.responder_resources);
  number("initiator_depth", connection.initiator_depth);
  number("retry_count", connection.retry_count);
  number("rnr_retry_count", connection.rnr_retry_count);
  number("ack_timeout", connection.ack_timeout);
}

}  // namespace pollux::cm
