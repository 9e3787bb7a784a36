#include "stack/engine/loop/worker_stats.h"

#include <rte_mempool.h>
#include <sched.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "stack/base/address.h"
#include "stack/engine/loop/worker.h"
#include "stack/engine/loop/worker_parts.h"
#include "stack/transport/diagnostics/flight_text.h"

namespace pollux::engine {
namespace {

using transport::Endpoint;

const char* TypeName(ibv_qp_type type) {
  return type == IBV_QPT_RC ? "RC" : type == IBV_QPT_UC ? "UC" : "UD";
}

const char* StateName(ibv_qp_state state) {
  static constexpr const char* kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return static_cast<size_t>(state) < std::size(kNames) ? kNames[state] : "unknown";
}

void TellCounters(const transport::Counters& counters, Stats* stats) {
  counters.Visit([&](std::string_view name, uint64_t value) { stats->Count(name, value); });
}

}  // namespace

bool WorkerStats::Collect(const StatsQuery& query, Stats* stats) {
  static constexpr struct {
    std::string_view topic;
    bool (WorkerStats::*tell)(const StatsQuery&, Stats*) const;
  } kTopics[] = {
      {"workers", &WorkerStats::CollectSummary},   {"worker", &WorkerStats::CollectCore},
      {"ports", &WorkerStats::CollectPorts},       {"port", &WorkerStats::CollectPort},
      {"qps", &WorkerStats::CollectQps},           {"qp", &WorkerStats::CollectQp},
      {"recorder", &WorkerStats::CollectRecorder}, {"memory", &WorkerStats::CollectMemory}};
  bool told = false;
  for (const auto& entry : kTopics) {
    if (entry.topic == query.topic) told = (this->*entry.tell)(query, stats);
  }
  for (StatsProvider* provider : stats_providers_) told |= provider->Collect(query, stats);
  return told;
}

bool WorkerStats::CollectSummary(const StatsQuery&, Stats* stats) const {
  stats->Set("queue_pairs", uint64_t{worker_.qps_.in_use()});
  stats->Set("ports", uint64_t{worker_.ports_.size()});
  return true;
}

bool WorkerStats::CollectCore(const StatsQuery&, Stats* stats) const {
  stats->Set("index", uint64_t{worker_.config_.index});
  stats->Set("cpu", static_cast<uint64_t>(std::max(sched_getcpu(), 0)));
  stats->Set("polls", worker_.core_counters_.polls);
  stats->Set("busy_polls", worker_.core_counters_.busy_polls);
  stats->Set("busy_ns", worker_.core_counters_.busy_ns);
  stats->Set("start_ns", worker_.config_.start_ns);
  stats->Set("now_ns", worker_.now_ns_);
  stats->Set("queue_pairs", uint64_t{worker_.qps_.in_use()});
  return true;
}

bool WorkerStats::CollectPorts(const StatsQuery&, Stats* stats) const {
  for (size_t i = 0; i < worker_.ports_.size(); ++i) {
    stats->Set(absl::StrCat(i + 1), worker_.ports_[i]->name);
  }
  return true;
}

bool WorkerStats::CollectPort(const StatsQuery& query, Stats* stats) const {
  const uint64_t port_num = query.object.value_or(1);
  if (port_num == 0 || port_num > worker_.ports_.size()) return false;
  const Worker::Port& port = *worker_.ports_[port_num - 1];
  const ip::Interface& interface = *port.interface;
  stats->Set("name", port.name);
  stats->Set("mac", FormatMac(interface.config().mac));
  for (uint32_t i = 0; i < interface.gid_table_size(); ++i) {
    const auto gid = interface.QueryGid(static_cast<int>(i));
    if (gid.ok()) stats->Set(absl::StrCat("gid/", i), FormatAddress(*gid));
  }
  stats->Set("path_mtu", uint64_t{128u << interface.active_mtu()});
  TellCounters(port.counters, stats);
  // Every worker of a port watches its link, and readers add up what the workers tell.
  stats->Count("link_downed", worker_.config_.index == 0 ? port.link_watch.downed() : 0);
  interface.counters().Visit(
      [&](std::string_view name, uint64_t value) { stats->Count(name, value); });
  return true;
}

bool WorkerStats::CollectQps(const StatsQuery& query, Stats* stats) const {
  const Qpn after{static_cast<uint32_t>(query.object.value_or(0))};
  stats->BeNumbers();
  worker_.qps_.VisitNumbers(after, [stats](Qpn qpn) { return stats->AddNumber(qpn.value); });
  return true;
}

const Endpoint* WorkerStats::FindEndpoint(std::optional<uint64_t> qpn) const {
  if (!qpn || *qpn > kMulticastQpn.value) return nullptr;
  return worker_.qps_.FindEndpoint(Qpn{static_cast<uint32_t>(*qpn)});
}

bool WorkerStats::CollectQp(const StatsQuery& query, Stats* stats) const {
  const Endpoint* const endpoint = FindEndpoint(query.object);
  if (endpoint == nullptr) return false;
  const verbs::QueuePair& qp = endpoint->qp;
  stats->Set("qpn", uint64_t{qp.qpn().value});
  stats->Set("type", std::string(TypeName(qp.type())));
  stats->Set("state", std::string(StateName(qp.state())));
  stats->Set("path_mtu", uint64_t{qp.PathMtuBytes()});
  if (qp.type() != IBV_QPT_UD && qp.path.link != nullptr) {
    stats->Set("peer", FormatAddress(qp.path.destination));
    stats->Set("peer_qpn", uint64_t{qp.attr.dest_qp_num});
  }
  stats->Set("send_queue", uint64_t{qp.sq_tail() - qp.sq_head()});
  stats->Set("receive_queue", uint64_t{qp.rq_depth()});
  if (qp.type() == IBV_QPT_RC) {
    stats->Set("round_trip_ns", endpoint->requester().round_trip().smoothed_ns());
    stats->Set("window_pkts", uint64_t{endpoint->requester().window().packets()});
  }
  TellCounters(endpoint->diagnostics().counters(), stats);
  return true;
}

bool WorkerStats::CollectRecorder(const StatsQuery& query, Stats* stats) const {
  const Endpoint* const endpoint = FindEndpoint(query.object);
  if (endpoint == nullptr) return false;
  stats->BeLines();
  const std::string log =
      transport::FlightLog(endpoint->diagnostics().recorder().Entries(), worker_.now_ns_);
  for (const auto line : absl::StrSplit(log, '\n', absl::SkipEmpty())) {
    stats->AddLine({line.data(), line.size()});
  }
  return true;
}

bool WorkerStats::CollectMemory(const StatsQuery&, Stats* stats) const {
  const auto number = [](auto value) { return static_cast<uint64_t>(value); };
  stats->Set("queue_pairs", number(worker_.qps_.in_use()));
  stats->Set("max_queue_pairs", number(worker_.config_.max_queue_pairs));
  stats->Set("queue_pair_numbers_free", number(worker_.qps_.free_numbers()));
  stats->Set("completion_queues", number(worker_.cqs_.size()));
  stats->Set("shared_receive_queues", number(worker_.srqs_.size()));
  stats->Set("protection_domains", number(worker_.memory_.domains()));
  stats->Set("address_handles", number(worker_.ahs_.size()));
  stats->Set("memory_windows", number(worker_.memory_.windows()));
  stats->Set("regions_and_windows", number(worker_.memory_.regions().size()));
  stats->Set("max_regions_and_windows", number(worker_.memory_.regions().capacity()));
  stats->Set("multicast_groups", number(worker_.groups_.size()));
  stats->Set("packet_buffers", number(worker_.packet_pool_->size));
  stats->Set("packet_buffers_free", number(rte_mempool_avail_count(worker_.packet_pool_)));
  return true;
}

}  // namespace pollux::engine
