// What a worker tells of itself, its ports and its objects (telemetry).
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

void Worker::RemoveStatsProvider(StatsProvider* provider) {
  std::erase(stats_providers_, provider);
}

bool Worker::Collect(const StatsQuery& query, Stats* stats) {
  static constexpr struct {
    std::string_view topic;
    bool (Worker::*tell)(const StatsQuery&, Stats*);
  } kTopics[] = {{"workers", &Worker::CollectSummary},   {"worker", &Worker::CollectCore},
                 {"ports", &Worker::CollectPorts},       {"port", &Worker::CollectPort},
                 {"qps", &Worker::CollectQps},           {"qp", &Worker::CollectQp},
                 {"recorder", &Worker::CollectRecorder}, {"memory", &Worker::CollectMemory}};
  bool told = false;
  for (const auto& entry : kTopics) {
    if (entry.topic == query.topic) told = (this->*entry.tell)(query, stats);
  }
  for (StatsProvider* provider : stats_providers_) told |= provider->Collect(query, stats);
  return told;
}

uint32_t Worker::QueuePairs() const {
  return static_cast<uint32_t>(
      std::count_if(slots_.get(), slots_.get() + slot_count_,
                    [](const Slot& slot) { return slot.endpoint != nullptr; }));
}

bool Worker::CollectSummary(const StatsQuery&, Stats* stats) {
  stats->Set("queue_pairs", uint64_t{QueuePairs()});
  stats->Set("ports", uint64_t{ports_.size()});
  return true;
}

bool Worker::CollectCore(const StatsQuery&, Stats* stats) {
  stats->Set("index", uint64_t{config_.index});
  stats->Set("cpu", static_cast<uint64_t>(std::max(sched_getcpu(), 0)));
  stats->Set("polls", core_counters_.polls);
  stats->Set("busy_polls", core_counters_.busy_polls);
  stats->Set("busy_ns", core_counters_.busy_ns);
  stats->Set("start_ns", config_.start_ns);
  stats->Set("now_ns", now_ns_);
  stats->Set("queue_pairs", uint64_t{QueuePairs()});
  return true;
}

bool Worker::CollectPorts(const StatsQuery&, Stats* stats) {
  for (size_t i = 0; i < ports_.size(); ++i) {
    stats->Set(absl::StrCat(i + 1), ports_[i]->name);
  }
  return true;
}

bool Worker::CollectPort(const StatsQuery& query, Stats* stats) {
  const uint64_t port_num = query.object.value_or(1);
  if (port_num == 0 || port_num > ports_.size()) return false;
  const Port& port = *ports_[port_num - 1];
  const ip::Interface& interface = *port.interface;
  stats->Set("name", port.name);
  stats->Set("mac", FormatMac(interface.config().mac));
  for (uint32_t i = 0; i < interface.gid_table_size(); ++i) {
    const auto gid = interface.QueryGid(static_cast<int>(i));
    if (gid.ok()) stats->Set(absl::StrCat("gid/", i), FormatAddress(*gid));
  }
  stats->Set("path_mtu", uint64_t{128u << interface.active_mtu()});
  TellCounters(port.counters, stats);
  stats->Count("link_downed", port.link_watch.downed());
  interface.counters().Visit(
      [&](std::string_view name, uint64_t value) { stats->Count(name, value); });
  return true;
}

bool Worker::CollectQps(const StatsQuery& query, Stats* stats) {
  const Qpn after{static_cast<uint32_t>(query.object.value_or(0))};
  stats->BeNumbers();
  if (gsi_slot_ != nullptr && gsi_slot_->endpoint != nullptr && after.value < kGsiQpn.value) {
    stats->AddNumber(kGsiQpn.value);
  }
  const uint32_t next = after.value <= kGsiQpn.value ? 0 : config_.qpn_layout.index(after) + 1;
  for (size_t i = next; i < slot_count_; ++i) {
    const Slot& slot = slots_[i];
    if (slot.endpoint == nullptr) continue;
    if (!stats->AddNumber(slot.qpn.value)) break;
  }
  return true;
}

const Endpoint* Worker::FindEndpoint(std::optional<uint64_t> qpn) const {
  if (!qpn || *qpn > kMulticastQpn.value) return nullptr;
  const Qpn wanted{static_cast<uint32_t>(*qpn)};
  const uint32_t index = config_.qpn_layout.index(wanted);
  const Slot* slot = wanted == kGsiQpn     ? gsi_slot_.get()
                     : index < slot_count_ ? &slots_[index]
                                           : nullptr;
  return slot != nullptr && slot->qpn == wanted ? slot->endpoint.get() : nullptr;
}

bool Worker::CollectQp(const StatsQuery& query, Stats* stats) {
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
  TellCounters(endpoint->diagnostics().counters(), stats);
  return true;
}

bool Worker::CollectRecorder(const StatsQuery& query, Stats* stats) {
  const Endpoint* const endpoint = FindEndpoint(query.object);
  if (endpoint == nullptr) return false;
  stats->BeLines();
  const std::string log =
      transport::FlightLog(endpoint->diagnostics().recorder().Entries(), now_ns_);
  for (const auto line : absl::StrSplit(log, '\n', absl::SkipEmpty())) {
    stats->AddLine({line.data(), line.size()});
  }
  return true;
}

bool Worker::CollectMemory(const StatsQuery&, Stats* stats) {
  const auto number = [](auto value) { return static_cast<uint64_t>(value); };
  stats->Set("queue_pairs", number(QueuePairs()));
  stats->Set("max_queue_pairs", number(config_.max_queue_pairs));
  stats->Set("queue_pair_numbers_free", number(free_slots_.size()));
  stats->Set("completion_queues", number(cqs_.size()));
  stats->Set("shared_receive_queues", number(srqs_.size()));
  stats->Set("protection_domains", number(pds_.size()));
  stats->Set("address_handles", number(ahs_.size()));
  stats->Set("memory_windows", number(mws_.size()));
  stats->Set("regions_and_windows", number(regions_.size()));
  stats->Set("max_regions_and_windows", number(regions_.capacity()));
  stats->Set("multicast_groups", number(groups_.size()));
  stats->Set("packet_buffers", number(packet_pool_->size));
  stats->Set("packet_buffers_free", number(rte_mempool_avail_count(packet_pool_)));
  return true;
}

}  // namespace pollux::engine
