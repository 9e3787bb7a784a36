#include "tools/stat/stat_text.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/common/report.h"

namespace pollux::tools {
namespace {

using Json = nlohmann::ordered_json;

uint64_t Number(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

std::string Text(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

const Json& Part(const Json& object, const char* name) {
  static const Json* const kNothing = new Json(Json::object());
  const auto found = object.find(name);
  return found == object.end() ? *kNothing : *found;
}

bool IsNumber(const std::string& cell) {
  return !cell.empty() && cell.find_first_not_of("0123456789,.") == std::string::npos;
}

// The numbers of an object, with their growth since `before`.
std::string Counters(const Json& object, bool all, const Json* before, double seconds) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const auto& [name, value] : object.items()) {
    if (!value.is_number_unsigned()) continue;
    const auto number = value.get<uint64_t>();
    if (number == 0 && !all) continue;
    std::string text = Grouped(number);
    const uint64_t was = before == nullptr ? number : Number(*before, name.c_str());
    if (number > was && seconds > 0) {
      absl::StrAppendFormat(&text, "  (%.0f a second)",
                            static_cast<double>(number - was) / seconds);
    }
    rows.emplace_back(name, std::move(text));
  }
  return Table(rows);
}

// In percent: of the time between, or since its start.
double Busy(const Json& core, const Json* before) {
  const uint64_t from = before == nullptr ? Number(core, "start_ns") : Number(*before, "now_ns");
  const uint64_t busy = before == nullptr ? 0 : Number(*before, "busy_ns");
  const uint64_t now = Number(core, "now_ns");
  if (now <= from) return 0;
  return 100 * static_cast<double>(Number(core, "busy_ns") - busy) /
         static_cast<double>(now - from);
}

// The worker of the same number in an earlier answer of its process; null: none.
const Json* WorkerOf(const Json& process, const Json& worker) {
  for (const Json& one : Part(process, "workers")) {
    if (Number(one, "worker") == Number(worker, "worker")) return &one;
  }
  return nullptr;
}

std::string QueuePairs(const Json& queue_pairs) {
  std::vector<std::vector<std::string>> rows;
  for (const Json& qp : queue_pairs) {
    if (rows.size() == kMaxQueuePairsShown) break;
    rows.push_back({absl::StrCat(Number(qp, "qpn")), Text(qp, "type"), Text(qp, "state"),
                    Text(qp, "peer"), Text(qp, "peer_qpn"), Grouped(Number(qp, "sent_pkts")),
                    Grouped(Number(qp, "rcvd_pkts")), Bytes(Number(qp, "sent_bytes")),
                    Bytes(Number(qp, "rcvd_bytes")), Grouped(Number(qp, "retransmitted_pkts"))});
  }
  std::string text = Columns({"QPN", "type", "state", "peer", "peer QPN", "sent_pkts", "rcvd_pkts",
                              "sent", "received", "retransmitted"},
                             rows);
  if (queue_pairs.size() > rows.size()) {
    absl::StrAppend(&text, "  and ", queue_pairs.size() - rows.size(), " more, which --json has\n");
  }
  return text;
}

std::string PortText(uint64_t worker, size_t number, const Json& port, bool all, const Json* before,
                     double seconds) {
  std::string text =
      absl::StrFormat("\nport %u/%u %s, MAC %s, path MTU %u\n", worker, number, Text(port, "name"),
                      Text(port, "mac"), Number(port, "path_mtu"));
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

std::string WorkerText(const Json& worker, bool all, const Json* before, double seconds) {
  const auto was = [before](const char* name) {
    return before == nullptr ? nullptr : &Part(*before, name);
  };
  const uint64_t number = Number(worker, "worker");
  const Json& core = Part(worker, "core");
  std::string text =
      absl::StrFormat("\nworker %u: CPU %u, busy %.1f %%, %u connections, %u queue pairs\n", number,
                      Number(core, "cpu"), Busy(core, was("core")), Number(core, "connections"),
                      Number(core, "queue_pairs"));
  const Json& ports = Part(worker, "ports");
  const Json* const ports_before = was("ports");
  for (size_t i = 0; i < ports.size(); ++i) {
    const bool known = ports_before != nullptr && i < ports_before->size();
    absl::StrAppend(&text, PortText(number, i + 1, ports[i], all,
                                    known ? &(*ports_before)[i] : nullptr, seconds));
  }
  for (const char* part : {"cm", "rpc", "nfs", "memory"}) {
    const std::string counters = Counters(Part(worker, part), all, was(part), seconds);
    if (!counters.empty()) absl::StrAppend(&text, "\n", part, "\n", counters);
  }
  return absl::StrCat(text, "\nqueue pairs\n", QueuePairs(Part(worker, "queue_pairs")));
}

// What each of several workers does of the whole, and how many frames came to it by another. The
// share of time is that of its own report.
std::string CoresText(const Json& workers, const Json* before) {
  constexpr const char* kOfPorts[] = {"sent_pkts", "rcvd_pkts"};
  constexpr const char* kOfCore[] = {"steering/handed_over", "steering/by_ring",
                                     "steering/ring_full"};
  std::vector<std::vector<std::string>> rows;
  for (const Json& worker : workers) {
    const Json& core = Part(worker, "core");
    const Json* const known = before == nullptr ? nullptr : WorkerOf(*before, worker);
    std::vector<std::string> row = {
        absl::StrCat(Number(worker, "worker")), absl::StrCat(Number(core, "cpu")),
        absl::StrFormat("%.1f", Busy(core, known == nullptr ? nullptr : &Part(*known, "core"))),
        Grouped(Number(core, "connections")), Grouped(Number(core, "queue_pairs"))};
    for (const char* const name : kOfPorts) {
      uint64_t sum = 0;
      for (const Json& port : Part(worker, "ports")) sum += Number(port, name);
      row.push_back(Grouped(sum));
    }
    for (const char* const name : kOfCore) row.push_back(Grouped(Number(core, name)));
    rows.push_back(std::move(row));
  }
  return absl::StrCat("\n",
                      Columns({"worker", "CPU", "busy %", "connections", "queue pairs", "sent_pkts",
                               "rcvd_pkts", "handed over", "by ring", "ring drops"},
                              rows));
}

std::string Title(const Json& process) {
  return absl::StrFormat("process %u, %s\n", Number(process, "pid"), Text(process, "file_prefix"));
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

std::string StatText(const Json& process, bool all, const Json* before, double seconds) {
  std::string text = Title(process);
  const Json& workers = Part(process, "workers");
  if (workers.size() > 1) absl::StrAppend(&text, CoresText(workers, before));
  for (const Json& worker : workers) {
    const Json* const known = before == nullptr ? nullptr : WorkerOf(*before, worker);
    absl::StrAppend(&text, WorkerText(worker, all, known, seconds));
  }
  return text;
}

std::string ConnectionsText(const Json& process) {
  std::vector<std::vector<std::string>> rows;
  std::string recorders;
  for (const Json& one : Part(process, "connections")) {
    const Json& qp = Part(one, "queue_pair");
    const bool listens = Text(one, "state") == "LISTEN";
    rows.push_back({Text(one, "local"), listens ? "" : Text(one, "peer"), Text(one, "port_space"),
                    Text(one, "state"), listens ? "" : absl::StrCat(Number(one, "qpn")),
                    listens ? "" : absl::StrCat(Number(one, "peer_qpn")),
                    listens ? "" : absl::StrCat(Number(one, "path_mtu")),
                    Age(Number(one, "age_ms")), Bytes(Number(qp, "sent_bytes")),
                    Bytes(Number(qp, "rcvd_bytes")), Grouped(Number(qp, "retransmitted_pkts")),
                    absl::StrCat(Number(one, "worker")), absl::StrCat(Number(one, "cpu"))});
    const Json& recorder = Part(one, "recorder");
    if (recorder.is_array()) {
      absl::StrAppend(&recorders, "\nqueue pair ", Number(one, "qpn"), "\n");
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
