#include "tools/stat/stat_text.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/common/report.h"
#include "tools/stat/json_fields.h"

namespace pollux::tools {
namespace {

using Json = nlohmann::ordered_json;

// Also with a unit: "1.2M".
bool IsNumber(const std::string& cell) {
  const size_t end = cell.find_first_not_of("0123456789,.");
  return !cell.empty() &&
         (end == std::string::npos || (end > 0 && end + 1 == cell.size() &&
                                       std::string("kMG").find(cell[end]) != std::string::npos));
}

// The numbers of an object, with their growth since `before`.
std::string Counters(const Json& object, bool all, const Json* before, double seconds) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const auto& [name, value] : object.items()) {
    if (!value.is_number_unsigned()) continue;
    const auto number = value.get<uint64_t>();
    if (number == 0 && !all) continue;
    std::string text = Grouped(number);
    const uint64_t was = before == nullptr ? number : NumberField(*before, name.c_str());
    if (number > was && seconds > 0) {
      absl::StrAppendFormat(&text, "  (%.0f a second)",
                            static_cast<double>(number - was) / seconds);
    }
    rows.emplace_back(name, std::move(text));
  }
  return Table(rows);
}

// The worker of the same number in an earlier answer of its process; null: none.
const Json* WorkerOf(const Json& process, const Json& worker) {
  for (const Json& one : PartField(process, "workers")) {
    if (NumberField(one, "worker") == NumberField(worker, "worker")) return &one;
  }
  return nullptr;
}

std::string QueuePairs(const Json& queue_pairs) {
  std::vector<std::vector<std::string>> rows;
  for (const Json& qp : queue_pairs) {
    if (rows.size() == kMaxQueuePairsShown) break;
    rows.push_back({absl::StrCat(NumberField(qp, "qpn")), TextField(qp, "type"),
                    TextField(qp, "state"), TextField(qp, "peer"), TextField(qp, "peer_qpn"),
                    Grouped(NumberField(qp, "sent_pkts")), Grouped(NumberField(qp, "rcvd_pkts")),
                    Bytes(NumberField(qp, "sent_bytes")), Bytes(NumberField(qp, "rcvd_bytes")),
                    Grouped(NumberField(qp, "retransmitted_pkts"))});
  }
  std::string text = Columns({"QPN", "type", "state", "peer", "peer QPN", "sent_pkts", "rcvd_pkts",
                              "sent", "received", "retransmitted"},
                             rows);
  if (queue_pairs.size() > rows.size()) {
    absl::StrAppend(&text, "  and ", queue_pairs.size() - rows.size(), " more (see --json)\n");
  }
  return text;
}

std::string PortText(uint64_t worker, size_t number, const Json& port, bool all, const Json* before,
                     double seconds) {
  std::string text = absl::StrFormat("\nport %u/%u %s, MAC %s, path MTU %u\n", worker, number,
                                     TextField(port, "name"), TextField(port, "mac"),
                                     NumberField(port, "path_mtu"));
  for (const auto& [name, value] : port.items()) {
    if (name.rfind("gid/", 0) == 0 && value.is_string()) {
      absl::StrAppend(&text, "  ", value.get<std::string>(), "\n");
    }
  }
  Json counters = port;
  counters.erase("path_mtu");
  absl::StrAppend(&text, Counters(counters, all, before, seconds));
  return text;
}

std::string WorkerText(const Json& worker, bool all, const Json* before) {
  const auto was = [before](const char* name) {
    return before == nullptr ? nullptr : &PartField(*before, name);
  };
  const uint64_t number = NumberField(worker, "worker");
  const Json& core = PartField(worker, "core");
  const double seconds = SecondsBetween(core, was("core"));
  std::string text =
      absl::StrFormat("\nworker %u: CPU %u, busy %.1f %%%s, %u connections, %u queue pairs\n",
                      number, NumberField(core, "cpu"), BusyShare(core, was("core")),
                      before == nullptr ? " since its start" : "", NumberField(core, "connections"),
                      NumberField(core, "queue_pairs"));
  const Json& ports = PartField(worker, "ports");
  const Json* const ports_before = was("ports");
  for (size_t i = 0; i < ports.size(); ++i) {
    const bool known = ports_before != nullptr && i < ports_before->size();
    absl::StrAppend(&text, PortText(number, i + 1, ports[i], all,
                                    known ? &(*ports_before)[i] : nullptr, seconds));
  }
  for (const char* part : {"cm", "rpc", "nfs", "memory"}) {
    const std::string counters = Counters(PartField(worker, part), all, was(part), seconds);
    if (!counters.empty()) absl::StrAppend(&text, "\n", part, "\n", counters);
  }
  return absl::StrCat(text, "\nqueue pairs\n", QueuePairs(PartField(worker, "queue_pairs")));
}

// What each of several workers does of the whole, and how many frames came to it by another. The
// share of time is that of its own report.
std::string CoresText(const Json& workers, const Json* before) {
  constexpr const char* kOfPorts[] = {"sent_pkts", "rcvd_pkts"};
  constexpr const char* kOfCore[] = {"steering/handed_over", "steering/by_ring",
                                     "steering/ring_full"};
  std::vector<std::vector<std::string>> rows;
  for (const Json& worker : workers) {
    const Json& core = PartField(worker, "core");
    const Json* const known = before == nullptr ? nullptr : WorkerOf(*before, worker);
    std::vector<std::string> row = {
        absl::StrCat(NumberField(worker, "worker")), absl::StrCat(NumberField(core, "cpu")),
        absl::StrFormat("%.1f",
                        BusyShare(core, known == nullptr ? nullptr : &PartField(*known, "core"))),
        Grouped(NumberField(core, "connections")), Grouped(NumberField(core, "queue_pairs"))};
    for (const char* const name : kOfPorts) {
      uint64_t sum = 0;
      for (const Json& port : PartField(worker, "ports")) sum += NumberField(port, name);
      row.push_back(Grouped(sum));
    }
    for (const char* const name : kOfCore) row.push_back(Grouped(NumberField(core, name)));
    rows.push_back(std::move(row));
  }
  return absl::StrCat("\n",
                      Columns({"worker", "CPU", "busy %", "connections", "queue pairs", "sent_pkts",
                               "rcvd_pkts", "handed over", "by ring", "ring drops"},
                              rows));
}

std::string Title(const Json& process) {
  return absl::StrFormat("process %u, %s\n", NumberField(process, "pid"),
                         TextField(process, "file_prefix"));
}

}  // namespace

std::string Columns(const std::vector<std::string>& titles,
                    const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (size_t i = 0; i < titles.size(); ++i) {
    widths.push_back(titles[i].size());
    for (const auto& row : rows) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string one;
    for (size_t i = 0; i < cells.size(); ++i) {
      const std::string blanks(widths[i] - cells[i].size(), ' ');
      const bool right = IsNumber(cells[i]);
      absl::StrAppend(&one, "  ", right ? blanks : "", cells[i], right ? "" : blanks);
    }
    absl::StrAppend(&text, one.substr(0, one.find_last_not_of(' ') + 1), "\n");
  };
  line(titles);
  for (const auto& row : rows) line(row);
  return text;
}

std::string Age(uint64_t ms) {
  const uint64_t seconds = ms / 1000;
  if (seconds < 1) return absl::StrFormat("%u ms", ms);
  if (seconds < 60) return absl::StrFormat("%.1f s", static_cast<double>(ms) / 1000);
  if (seconds < 3600) return absl::StrFormat("%u:%02u min", seconds / 60, seconds % 60);
  return absl::StrFormat("%u:%02u:%02u h", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

std::string StatText(const Json& process, bool all, const Json* before) {
  std::string text = Title(process);
  const Json& workers = PartField(process, "workers");
  if (workers.size() > 1) absl::StrAppend(&text, CoresText(workers, before));
  for (const Json& worker : workers) {
    const Json* const known = before == nullptr ? nullptr : WorkerOf(*before, worker);
    absl::StrAppend(&text, WorkerText(worker, all, known));
  }
  return text;
}

std::string ConnectionsText(const Json& process) {
  std::vector<std::vector<std::string>> rows;
  std::string recorders;
  for (const Json& one : PartField(process, "connections")) {
    const Json& qp = PartField(one, "queue_pair");
    const bool listens = TextField(one, "state") == "LISTEN";
    rows.push_back(
        {TextField(one, "local"), listens ? "" : TextField(one, "peer"),
         TextField(one, "port_space"), TextField(one, "state"),
         listens ? "" : absl::StrCat(NumberField(one, "qpn")),
         listens ? "" : absl::StrCat(NumberField(one, "peer_qpn")),
         listens ? "" : absl::StrCat(NumberField(one, "path_mtu")), Age(NumberField(one, "age_ms")),
         Bytes(NumberField(qp, "sent_bytes")), Bytes(NumberField(qp, "rcvd_bytes")),
         Grouped(NumberField(qp, "retransmitted_pkts")), absl::StrCat(NumberField(one, "worker")),
         absl::StrCat(NumberField(one, "cpu"))});
    const Json& recorder = PartField(one, "recorder");
    if (recorder.is_array()) {
      absl::StrAppend(&recorders, "\nqueue pair ", NumberField(one, "qpn"), "\n");
      for (const Json& line : recorder) {
        if (line.is_string()) absl::StrAppend(&recorders, line.get<std::string>(), "\n");
      }
    }
  }
  return absl::StrCat(Title(process),
                      Columns({"local", "peer", "port space", "state", "QPN", "peer QPN", "MTU",
                               "age", "sent", "received", "retransmitted", "worker", "CPU"},
                              rows),
                      recorders);
}

}  // namespace pollux::tools
