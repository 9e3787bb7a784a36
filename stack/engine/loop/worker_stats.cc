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

void TellCounters(const transport::Counters& counters, Report* report) {
  counters.Visit([&](std::string_view name, uint64_t value) { report->Count(name, value); });
}

}  // namespace

bool WorkerStats::Tell(const Question& question, Report* report) {
  static constexpr struct {
    std::string_view topic;
    bool (WorkerStats::*tell)(const Question&, Report*) const;
  } kTopics[] = {{"workers", &WorkerStats::TellSummary},   {"worker", &WorkerStats::TellCore},
                 {"ports", &WorkerStats::TellPorts},       {"port", &WorkerStats::TellPort},
                 {"qps", &WorkerStats::TellQps},           {"qp", &WorkerStats::TellQp},
                 {"recorder", &WorkerStats::TellRecorder}, {"memory", &WorkerStats::TellMemory}};
  bool told = false;
  for (const auto& entry : kTopics) {
    if (entry.topic == question.topic) told = (this->*entry.tell)(question, report);
  }
  for (Reporter* reporter : reporters_) told |= reporter->Tell(question, report);
  return told;
}

bool WorkerStats::TellSummary(const Question&, Report* report) const {
  report->Set("queue_pairs", uint64_t{worker_.qps_.in_use()});
  report->Set("ports", uint64_t{worker_.ports_.size()});
  return true;
}

bool WorkerStats::TellCore(const Question&, Report* report) const {
  report->Set("index", uint64_t{worker_.config_.index});
  report->Set("cpu", static_cast<uint64_t>(std::max(sched_getcpu(), 0)));
  report->Set("polls", worker_.core_counters_.polls);
  report->Set("busy_polls", worker_.core_counters_.busy_polls);
  report->Set("busy_ns", worker_.core_counters_.busy_ns);
  report->Set("start_ns", worker_.config_.start_ns);
  report->Set("now_ns", worker_.now_ns_);
  report->Set("queue_pairs", uint64_t{worker_.qps_.in_use()});
  return true;
}

bool WorkerStats::TellPorts(const Question&, Report* report) const {
  for (size_t i = 0; i < worker_.ports_.size(); ++i) {
    report->Set(absl::StrCat(i + 1), worker_.ports_[i]->name);
  }
  return true;
}

bool WorkerStats::TellPort(const Question& question, Report* report) const {
  const uint64_t port_num = question.object.value_or(1);
  if (port_num == 0 || port_num > worker_.ports_.size()) return false;
  const Worker::Port& port = *worker_.ports_[port_num - 1];
  const ip::Interface& interface = *port.interface;
  report->Set("name", port.name);
  report->Set("mac", FormatMac(interface.config().mac));
  for (uint32_t i = 0; i < interface.gid_table_size(); ++i) {
    const auto gid = interface.QueryGid(static_cast<int>(i));
    if (gid.ok()) report->Set(absl::StrCat("gid/", i), FormatAddress(*gid));
  }
  report->Set("path_mtu", uint64_t{128u << interface.active_mtu()});
  TellCounters(port.counters, report);
  report->Count("link_downed", port.link_watch.downed());
  interface.counters().Visit(
      [&](std::string_view name, uint64_t value) { report->Count(name, value); });
  return true;
}

bool WorkerStats::TellQps(const Question& question, Report* report) const {
  const Qpn after{static_cast<uint32_t>(question.object.value_or(0))};
  report->BeNumbers();
  worker_.qps_.VisitNumbers(after, [report](Qpn qpn) { return report->AddNumber(qpn.value); });
  return true;
}

const Endpoint* WorkerStats::FindEndpoint(std::optional<uint64_t> qpn) const {
  if (!qpn || *qpn > kMulticastQpn.value) return nullptr;
  return worker_.qps_.FindEndpoint(Qpn{static_cast<uint32_t>(*qpn)});
}

bool WorkerStats::TellQp(const Question& question, Report* report) const {
  const Endpoint* const endpoint = FindEndpoint(question.object);
  if (endpoint == nullptr) return false;
  const verbs::QueuePair& qp = endpoint->qp;
  report->Set("qpn", uint64_t{qp.qpn().value});
  report->Set("type", std::string(TypeName(qp.type())));
  report->Set("state", std::string(StateName(qp.state())));
  report->Set("path_mtu", uint64_t{qp.PathMtuBytes()});
  if (qp.type() != IBV_QPT_UD && qp.path.link != nullptr) {
    report->Set("peer", FormatAddress(qp.path.destination));
    report->Set("peer_qpn", uint64_t{qp.attr.dest_qp_num});
  }
  report->Set("send_queue", uint64_t{qp.sq_tail() - qp.sq_head()});
  report->Set("receive_queue", uint64_t{qp.rq_depth()});
  TellCounters(endpoint->journal().counters(), report);
  return true;
}

bool WorkerStats::TellRecorder(const Question& question, Report* report) const {
  const Endpoint* const endpoint = FindEndpoint(question.object);
  if (endpoint == nullptr) return false;
  report->BeLines();
  const std::string log =
      transport::FlightLog(endpoint->journal().recorder().Entries(), worker_.now_ns_);
  for (const auto line : absl::StrSplit(log, '\n', absl::SkipEmpty())) {
    report->AddLine({line.data(), line.size()});
  }
  return true;
}

bool WorkerStats::TellMemory(const Question&, Report* report) const {
  const auto number = [](auto value) { return static_cast<uint64_t>(value); };
  report->Set("queue_pairs", number(worker_.qps_.in_use()));
  report->Set("max_queue_pairs", number(worker_.config_.max_queue_pairs));
  report->Set("queue_pair_numbers_free", number(worker_.qps_.free_numbers()));
  report->Set("completion_queues", number(worker_.cqs_.size()));
  report->Set("shared_receive_queues", number(worker_.srqs_.size()));
  report->Set("protection_domains", number(worker_.memory_.domains()));
  report->Set("address_handles", number(worker_.ahs_.size()));
  report->Set("memory_windows", number(worker_.memory_.windows()));
  report->Set("regions_and_windows", number(worker_.memory_.regions().size()));
  report->Set("max_regions_and_windows", number(worker_.memory_.regions().capacity()));
  report->Set("multicast_groups", number(worker_.groups_.size()));
  report->Set("packet_buffers", number(worker_.packet_pool_->size));
  report->Set("packet_buffers_free", number(rte_mempool_avail_count(worker_.packet_pool_)));
  return true;
}

}  // namespace pollux::engine
