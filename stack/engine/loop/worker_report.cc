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

void TellCounters(const transport::Counters& counters, Report* report) {
  counters.Visit([&](std::string_view name, uint64_t value) { report->Count(name, value); });
}

}  // namespace

void Worker::RemoveReporter(Reporter* reporter) { std::erase(reporters_, reporter); }

bool Worker::Tell(const Question& question, Report* report) {
  static constexpr struct {
    std::string_view topic;
    bool (Worker::*tell)(const Question&, Report*);
  } kTopics[] = {{"workers", &Worker::TellSummary},   {"worker", &Worker::TellCore},
                 {"ports", &Worker::TellPorts},       {"port", &Worker::TellPort},
                 {"qps", &Worker::TellQps},           {"qp", &Worker::TellQp},
                 {"recorder", &Worker::TellRecorder}, {"memory", &Worker::TellMemory}};
  bool told = false;
  for (const auto& entry : kTopics) {
    if (entry.topic == question.topic) told = (this->*entry.tell)(question, report);
  }
  for (Reporter* reporter : reporters_) told |= reporter->Tell(question, report);
  return told;
}

uint32_t Worker::QueuePairs() const {
  return static_cast<uint32_t>(
      std::count_if(slots_.get(), slots_.get() + slot_count_,
                    [](const Slot& slot) { return slot.endpoint != nullptr; }));
}

bool Worker::TellSummary(const Question&, Report* report) {
  report->Set("queue_pairs", uint64_t{QueuePairs()});
  report->Set("ports", uint64_t{ports_.size()});
  return true;
}

bool Worker::TellCore(const Question&, Report* report) {
  report->Set("index", uint64_t{config_.index});
  report->Set("cpu", static_cast<uint64_t>(std::max(sched_getcpu(), 0)));
  report->Set("polls", core_counters_.polls);
  report->Set("busy_polls", core_counters_.busy_polls);
  report->Set("busy_ns", core_counters_.busy_ns);
  report->Set("start_ns", config_.start_ns);
  report->Set("now_ns", now_ns_);
  report->Set("queue_pairs", uint64_t{QueuePairs()});
  return true;
}

bool Worker::TellPorts(const Question&, Report* report) {
  for (size_t i = 0; i < ports_.size(); ++i) {
    report->Set(absl::StrCat(i + 1), ports_[i]->name);
  }
  return true;
}

bool Worker::TellPort(const Question& question, Report* report) {
  const uint64_t port_num = question.object.value_or(1);
  if (port_num == 0 || port_num > ports_.size()) return false;
  const Port& port = *ports_[port_num - 1];
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

bool Worker::TellQps(const Question& question, Report* report) {
  const Qpn after{static_cast<uint32_t>(question.object.value_or(0))};
  report->BeNumbers();
  if (gsi_slot_ != nullptr && gsi_slot_->endpoint != nullptr && after.value < kGsiQpn.value) {
    report->AddNumber(kGsiQpn.value);
  }
  const uint32_t next = after.value <= kGsiQpn.value ? 0 : config_.qpn_layout.index(after) + 1;
  for (size_t i = next; i < slot_count_; ++i) {
    const Slot& slot = slots_[i];
    if (slot.endpoint == nullptr) continue;
    if (!report->AddNumber(slot.qpn.value)) break;
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

bool Worker::TellQp(const Question& question, Report* report) {
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

bool Worker::TellRecorder(const Question& question, Report* report) {
  const Endpoint* const endpoint = FindEndpoint(question.object);
  if (endpoint == nullptr) return false;
  report->BeLines();
  const std::string log = transport::FlightLog(endpoint->journal().recorder().Entries(), now_ns_);
  for (const auto line : absl::StrSplit(log, '\n', absl::SkipEmpty())) {
    report->AddLine({line.data(), line.size()});
  }
  return true;
}

bool Worker::TellMemory(const Question&, Report* report) {
  const auto number = [](auto value) { return static_cast<uint64_t>(value); };
  report->Set("queue_pairs", number(QueuePairs()));
  report->Set("max_queue_pairs", number(config_.max_queue_pairs));
  report->Set("queue_pair_numbers_free", number(free_slots_.size()));
  report->Set("completion_queues", number(cqs_.size()));
  report->Set("shared_receive_queues", number(srqs_.size()));
  report->Set("protection_domains", number(pds_.size()));
  report->Set("address_handles", number(ahs_.size()));
  report->Set("memory_windows", number(mws_.size()));
  report->Set("regions_and_windows", number(regions_.size()));
  report->Set("max_regions_and_windows", number(regions_.capacity()));
  report->Set("multicast_groups", number(groups_.size()));
  report->Set("packet_buffers", number(packet_pool_->size));
  report->Set("packet_buffers_free", number(rte_mempool_avail_count(packet_pool_)));
  return true;
}

}  // namespace pollux::engine
