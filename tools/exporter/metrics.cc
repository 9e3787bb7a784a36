#include "tools/exporter/metrics.h"

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tools/common/report.h"
#include "tools/common/version_numbers.h"
#include "tools/stat/json_fields.h"

namespace pollux::tools {
namespace {

using Json = nlohmann::ordered_json;
using Labels = std::vector<prometheus::ClientMetric::Label>;
using Type = prometheus::MetricType;

// A number of `pollux stat` whose metric has another name than that of the number, or is no
// counter. A key that ends with '/' stands for all numbers below it; the rest of the name is the
// value of `label`.
struct Rule {
  const char* part;
  const char* key;
  const char* metric;  // nullptr: none
  Type type;
  const char* label;
  const char* help;
};

constexpr double kSecondsPerNs = 1e-9;
constexpr double kNsPerSecond = 1e9;        // to divide by it makes the shortest decimals
constexpr const char* kBusyNs = "busy_ns";  // the only one in another unit than its metric

// A number without a rule is exported too, as a counter under its own name
// (pollux_port_NAME_total), or of the part "memory" as a gauge.
constexpr Rule kRules[] = {
    {"core", "index", nullptr, Type::Gauge, "", ""},
    {"core", "start_ns", nullptr, Type::Gauge, "", ""},
    {"core", "now_ns", nullptr, Type::Gauge, "", ""},
    {"core", kBusyNs, "worker_busy_seconds_total", Type::Counter, "",
     "Time that the worker spent on polls that found work; its rate is the busy share of the core"},
    {"core", "cpu", "worker_cpu", Type::Gauge, "", "Number of the CPU that the worker runs on"},
    {"core", "connections", "connections", Type::Gauge, "",
     "Connections that RDMA CM has established"},
    {"core", "queue_pairs", "queue_pairs", Type::Gauge, "", "Queue pairs in use"},

    {"port", "sent_pkts", "port_packets_transmitted_total", Type::Counter, "",
     "Number of RoCE packets transmitted"},
    {"port", "rcvd_pkts", "port_packets_received_total", Type::Counter, "",
     "Number of RoCE packets received"},
    {"port", "sent_bytes", "port_data_transmitted_bytes_total", Type::Counter, "",
     "Number of bytes of frames transmitted"},
    {"port", "rcvd_bytes", "port_data_received_bytes_total", Type::Counter, "",
     "Number of bytes of frames received"},
    {"port", "drops/", "port_drops_total", Type::Counter, "reason",
     "Number of packets dropped, by reason"},
    {"port", "retransmitted_pkts", "port_retransmitted_packets_total", Type::Counter, "",
     "Number of request packets transmitted again"},
    {"port", "retransmitted_responses", "port_retransmitted_responses_total", Type::Counter, "",
     "Number of response packets of READs and atomics transmitted again"},
    {"port", "link_downed", "link_downed_total", Type::Counter, "",
     "Number of times the link went down"},
    {"port", "path_mtu", "port_path_mtu_bytes", Type::Gauge, "", "Path MTU of the port"},
    {"port", "device/rx_missed", "port_discards_received_total", Type::Counter, "",
     "Number of frames that the device discarded since no worker took them in time"},
    {"port", "device/rx_errors", "port_errors_received_total", Type::Counter, "",
     "Number of frames with an error that the device received"},
    {"port", "device/queues", "port_device_queues", Type::Gauge, "", "Queue pairs of the device"},
    {"port", "device/sorts_by_qpn", "port_device_sorts_by_qpn", Type::Gauge, "",
     "1 if the device sorts packets by queue pair number, otherwise 0"},

    {"cm", "cm_tx_msgs/", "cm_messages_transmitted_total", Type::Counter, "message",
     "Number of CM messages transmitted, without repetitions"},
    {"cm", "cm_tx_retries/", "cm_messages_retransmitted_total", Type::Counter, "message",
     "Number of CM messages transmitted again"},
    {"cm", "cm_rx_msgs/", "cm_messages_received_total", Type::Counter, "message",
     "Number of CM messages received"},
    {"cm", "cm_rx_duplicates/", "cm_duplicates_received_total", Type::Counter, "message",
     "Number of CM messages received again"},
    {"cm", "cm_rx_drops/", "cm_drops_total", Type::Counter, "reason",
     "Number of CM messages dropped, by reason"},

    {"rpc", "connections", "rpc_connections", Type::Gauge, "", "Connections of RPC-over-RDMA"},
    {"rpc", "bytes_read", "rpc_read_bytes_total", Type::Counter, "",
     "Number of bytes of chunks moved by RDMA READ"},
    {"rpc", "bytes_written", "rpc_written_bytes_total", Type::Counter, "",
     "Number of bytes of chunks moved by RDMA WRITE"},
    {"rpc", "bytes_copied", "rpc_copied_bytes_total", Type::Counter, "",
     "Number of bytes of chunks copied in memory"},

    {"nfs", "calls/", "nfs_calls_total", Type::Counter, "procedure",
     "Number of NFS calls answered, by procedure"},
    {"nfs", "failures/", "nfs_failures_total", Type::Counter, "procedure",
     "Number of NFS calls answered with another status than NFS3_OK, by procedure"},
    {"nfs", "bytes_read", "nfs_read_bytes_total", Type::Counter, "",
     "Number of bytes read from files"},
    {"nfs", "bytes_ahead", "nfs_read_ahead_bytes_total", Type::Counter, "",
     "Number of those bytes that were sent while more of the same READ was read"},
    {"nfs", "bytes_written", "nfs_written_bytes_total", Type::Counter, "",
     "Number of bytes written to files"},
    {"nfs", "busy", "nfs_busy_calls", Type::Gauge, "", "NFS calls in progress"},
};

bool Prefixes(const Rule& rule) { return rule.label[0] != '\0'; }

const Rule* FindRule(absl::string_view part, absl::string_view key) {
  for (const Rule& rule : kRules) {
    if (rule.part != part) continue;
    if (Prefixes(rule) ? absl::StartsWith(key, rule.key) : rule.key == key) return &rule;
  }
  return nullptr;
}

Labels With(Labels labels, const std::string& name, const std::string& value) {
  labels.push_back({name, value});
  return labels;
}

class Families {
 public:
  void Add(const std::string& name, Type type, const std::string& help, Labels labels,
           double value) {
    prometheus::ClientMetric metric;
    metric.label = std::move(labels);
    (type == Type::Counter ? metric.counter.value : metric.gauge.value) = value;
    Family(name, type, help).metric.push_back(std::move(metric));
  }

  void Gauge(const std::string& name, const std::string& help, Labels labels, double value) {
    Add(name, Type::Gauge, help, std::move(labels), value);
  }

  // The numbers of a part by kRules; others as counters, or, of `otherwise`, as gauges.
  void AddPart(const char* part, const std::string& prefix, const Json& numbers,
               const Labels& labels, Type otherwise = Type::Counter) {
    for (const auto& [key, value] : numbers.items()) {
      if (value.is_number_unsigned()) {
        AddNumber(part, prefix, key, value.get<uint64_t>(), labels, otherwise);
      }
    }
  }

  // `numbers`: of one role, as CallTimes names them: those of the buckets in order of their limits.
  void AddCallTimes(const std::vector<std::pair<std::string, uint64_t>>& numbers, Labels labels) {
    prometheus::ClientMetric metric;
    metric.label = std::move(labels);
    prometheus::ClientMetric::Histogram& histogram = metric.histogram;
    for (const auto& [limit, number] : numbers) {
      uint64_t limit_ns = 0;
      if (limit == "sum") {
        histogram.sample_sum = static_cast<double>(number) * kSecondsPerNs;
        continue;
      }
      histogram.sample_count += number;
      histogram.bucket.push_back(
          {histogram.sample_count, absl::SimpleAtoi(limit, &limit_ns)
                                       ? static_cast<double>(limit_ns) / kNsPerSecond
                                       : std::numeric_limits<double>::infinity()});
    }
    Family("rpc_call_duration_seconds", Type::Histogram,
           "Time from the worker's turn that began with a call to the one that built its reply")
        .metric.push_back(std::move(metric));
  }

  // Numbers of clients and of servers, told apart by "client/" and "server/" before their names.
  void AddRpc(const Json& numbers, const Labels& labels) {
    std::map<std::string, std::vector<std::pair<std::string, uint64_t>>> call_times;  // by role
    for (const auto& [key, value] : numbers.items()) {
      const size_t end = key.find('/');
      if (!value.is_number_unsigned() || end == std::string::npos) continue;
      const std::string role = key.substr(0, end);
      absl::string_view name = absl::string_view(key).substr(end + 1);
      if (absl::ConsumePrefix(&name, "call_time_ns/")) {
        call_times[role].emplace_back(name, value.get<uint64_t>());
      } else {
        AddNumber("rpc", "rpc_", std::string(name), value.get<uint64_t>(),
                  With(labels, "role", role), Type::Counter);
      }
    }
    for (const auto& [role, numbers] : call_times) {
      AddCallTimes(numbers, With(labels, "role", role));
    }
  }

  std::vector<prometheus::MetricFamily> Take() { return std::move(families_); }

 private:
  prometheus::MetricFamily& Family(const std::string& name, Type type, const std::string& help) {
    const auto [found, added] = by_name_.try_emplace(name, families_.size());
    if (added) families_.push_back({absl::StrCat("pollux_", name), help, type, {}});
    return families_[found->second];
  }

  void AddNumber(const char* part, const std::string& prefix, const std::string& key,
                 uint64_t number, Labels labels, Type otherwise) {
    auto value = static_cast<double>(number);
    const Rule* const rule = FindRule(part, key);
    if (rule == nullptr) {
      const std::string name = absl::StrReplaceAll(key, {{"/", "_"}});
      const bool counts = otherwise == Type::Counter;
      Add(absl::StrCat(prefix, name, counts ? "_total" : ""), otherwise,
          absl::StrCat("The value ", key, " in part ", part, " of `pollux stat`"),
          std::move(labels), value);
      return;
    }
    if (rule->metric == nullptr) return;
    if (Prefixes(*rule)) labels.push_back({rule->label, key.substr(std::string(rule->key).size())});
    if (key == kBusyNs) value *= kSecondsPerNs;
    Add(rule->metric, rule->type, rule->help, std::move(labels), value);
  }

  std::map<std::string, size_t> by_name_;
  std::vector<prometheus::MetricFamily> families_;  // in the order in which they came
};

void AddWorker(const Json& worker, const Labels& of_process, Families* to) {
  const Labels labels = With(of_process, "worker", absl::StrCat(NumberField(worker, "worker")));
  const Json& core = PartField(worker, "core");
  to->AddPart("core", "worker_", core, labels);
  const uint64_t start = NumberField(core, "start_ns"), now = NumberField(core, "now_ns");
  to->Gauge("worker_uptime_seconds", "Time since the worker was started", labels,
            now < start ? 0 : static_cast<double>(now - start) * kSecondsPerNs);
  size_t number = 0;
  for (const Json& port : PartField(worker, "ports")) {
    Labels of_port = With(labels, "device", TextField(port, "name"));
    of_port.push_back({"port", absl::StrCat(++number)});
    to->Gauge("port_info", "Always 1; the labels describe the port",
              With(of_port, "mac", TextField(port, "mac")), 1);
    to->AddPart("port", "port_", port, of_port);
  }
  to->AddPart("cm", "cm_", PartField(worker, "cm"), labels);
  to->AddRpc(PartField(worker, "rpc"), labels);
  to->AddPart("nfs", "nfs_", PartField(worker, "nfs"), labels);
  to->AddPart("memory", "memory_", PartField(worker, "memory"), labels, Type::Gauge);
}

void AddConnection(const Json& connection, const Labels& of_process, Families* to) {
  constexpr struct {
    const char* key;
    const char* metric;
    const char* help;
  } kCounters[] = {
      {"sent_pkts", "packets_transmitted", "Number of packets transmitted on the connection"},
      {"rcvd_pkts", "packets_received", "Number of packets received on the connection"},
      {"sent_bytes", "data_transmitted_bytes", "Number of payload bytes transmitted"},
      {"rcvd_bytes", "data_received_bytes", "Number of payload bytes received"},
      {"retransmitted_pkts", "retransmitted_packets", "Number of request packets sent again"},
      {"retransmitted_responses", "retransmitted_responses",
       "Number of response packets of READs and atomics sent again"}};
  Labels labels = With(of_process, "worker", absl::StrCat(NumberField(connection, "worker")));
  labels.push_back({"comm_id", absl::StrCat(NumberField(connection, "comm_id"))});
  labels.push_back({"local", TextField(connection, "local")});
  labels.push_back({"peer", TextField(connection, "peer")});
  Labels of_info = With(labels, "port_space", TextField(connection, "port_space"));
  of_info.push_back({"state", TextField(connection, "state")});
  to->Gauge("connection_info", "Always 1; the labels describe the connection or listener",
            std::move(of_info), 1);
  const Json& qp = PartField(connection, "queue_pair");
  for (const auto& counter : kCounters) {
    if (!qp.contains(counter.key)) continue;
    to->Add(absl::StrCat("connection_", counter.metric, "_total"), Type::Counter, counter.help,
            labels, static_cast<double>(NumberField(qp, counter.key)));
  }
}

Labels OfProcess(const Json& process) {
  // A directory has this name, in any bytes; a scrape with invalid UTF-8 fails for all processes.
  return {{"process", ReplaceInvalidUtf8(TextField(process, "file_prefix"))},
          {"pid", absl::StrCat(NumberField(process, "pid"))}};
}

}  // namespace

std::vector<prometheus::MetricFamily> Metrics(const Json& sample, bool connections) {
  Families families;
  const Json& processes = PartField(sample, "processes");
  families.Gauge("exporter_build_info", "Always 1; the label has the version of the exporter",
                 {{"version", POLLUX_VERSION}}, 1);
  families.Gauge("exporter_scrape_success",
                 "1 if the exporter could look for processes, otherwise 0", {},
                 sample.contains("error") ? 0 : 1);
  families.Gauge("exporter_scrape_duration_seconds", "Time taken to query all processes", {},
                 static_cast<double>(NumberField(sample, "duration_ns")) * kSecondsPerNs);
  families.Gauge("processes", "Pollux processes that answered", {},
                 static_cast<double>(processes.size()));
  constexpr char kUp[] = "up";
  constexpr char kUpHelp[] = "1 if the process answered, 0 if it exists but did not answer";
  for (const Json& one : PartField(sample, "silent")) {
    families.Gauge(kUp, kUpHelp, OfProcess(one), 0);
  }
  for (const Json& process : processes) {
    const Labels labels = OfProcess(process);
    families.Gauge(kUp, kUpHelp, labels, 1);
    for (const Json& worker : PartField(process, "workers")) AddWorker(worker, labels, &families);
    if (!connections) continue;
    for (const Json& one : PartField(process, "connections")) {
      AddConnection(one, labels, &families);
    }
  }
  return families.Take();
}

}  // namespace pollux::tools
