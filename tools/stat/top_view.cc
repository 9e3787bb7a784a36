#include "tools/stat/top_view.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tools/common/report.h"
#include "tools/stat/json_fields.h"
#include "tools/stat/stat_text.h"

namespace pollux::tools {
namespace {

using Json = nlohmann::ordered_json;
using Cells = std::vector<std::string>;

constexpr const char* kSortNames[] = {"rate", "packets", "retransmissions", "age", "peer", "state"};

// "950", "12.3k", "4.56M", "1.20G".
std::string Short(double number) {
  constexpr std::pair<double, const char*> kUnits[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  for (const auto& [size, name] : kUnits) {
    if (number >= size) {
      const double in_units = number / size;
      return absl::StrFormat("%.*f%s", in_units < 10 ? 2 : in_units < 100 ? 1 : 0, in_units, name);
    }
  }
  return absl::StrFormat("%.0f", number);
}

// In microseconds: "9.7", "12642".
std::string RoundTrip(uint64_t ns) {
  return absl::StrFormat("%.*f", ns < 1'000'000 ? 1 : 0, static_cast<double>(ns) / 1000);
}

// The entry of `list` with the same number in the field `name` as `now`; null: it is new. For short
// lists.
const Json* Earlier(const Json& list, const Json& now, const char* name) {
  const auto found = std::ranges::find_if(
      list, [&](const Json& one) { return NumberField(one, name) == NumberField(now, name); });
  return found == list.end() ? nullptr : &*found;
}

// Of a counter, per second; 0 without an earlier value.
double Growth(const Json& now, const Json* before, const std::string& name, double seconds) {
  if (before == nullptr || seconds <= 0) return 0;
  const uint64_t to = NumberField(now, name), from = NumberField(*before, name);
  return to <= from ? 0 : static_cast<double>(to - from) / seconds;
}

class TableMaker {
 public:
  TableMaker(const Json& before, const TopChoice& choice) : before_(before), choice_(choice) {}

  void Add(const Json& process) {
    const Json* const known = Earlier(PartField(before_, "processes"), process, "pid");
    const std::string pid = absl::StrCat(NumberField(process, "pid"));
    std::map<uint64_t, double> seconds;  // of each worker, since its earlier answer
    for (const Json& worker : PartField(process, "workers")) {
      const Json* const before =
          known == nullptr ? nullptr : Earlier(PartField(*known, "workers"), worker, "worker");
      seconds[NumberField(worker, "worker")] = AddWorker(pid, worker, before);
    }
    std::map<std::pair<uint64_t, uint64_t>, const Json*> earlier;
    if (known != nullptr) {
      for (const Json& one : PartField(*known, "connections")) earlier.emplace(Key(one), &one);
    }
    for (const Json& one : PartField(process, "connections")) {
      if (TextField(one, "state") == "LISTEN") continue;
      const auto found = earlier.find(Key(one));
      AddConnection(NumberField(process, "pid"), one,
                    found == earlier.end() ? nullptr : found->second,
                    seconds[NumberField(one, "worker")]);
    }
  }

  TopTables Take() {
    std::ranges::stable_sort(rows_, {}, &Row::order);
    TopTables tables;
    std::vector<Cells> cells;
    for (Row& row : rows_) {
      cells.push_back(std::move(row.cells));
      tables.connections.push_back(row.connection);
    }
    std::string drops;
    for (const auto& [reason, rate] : drops_) {
      if (rate > 0) absl::StrAppend(&drops, "  ", reason, " ", Short(rate), "/s");
    }
    const std::string head =
        absl::StrCat(Columns({"process", "worker", "CPU", "busy %", "port", "out/s", "in/s",
                              "out B/s", "in B/s", "resent/s", "drops/s"},
                             cores_),
                     "  drops by reason:", drops.empty() ? "  none" : drops);
    const std::string table =
        Columns({"process", "peer", "state", "out B/s", "in B/s", "resent", "RTT us", "window",
                 "out/s", "in/s", "send queue", "receives", "age", "worker", "local"},
                cells);
    tables.head = absl::StrSplit(head, '\n');
    tables.rows = absl::StrSplit(table, '\n', absl::SkipEmpty());
    tables.head.push_back(std::move(tables.rows.front()));
    tables.rows.erase(tables.rows.begin());
    return tables;
  }

 private:
  // Of a connection within its process.
  static std::pair<uint64_t, uint64_t> Key(const Json& connection) {
    return {NumberField(connection, "comm_id"), NumberField(connection, "worker")};
  }

  struct Row {
    std::pair<double, std::string> order;
    Cells cells;
    TopConnection connection;
  };

  double Drops(const Json& port, const Json* before, double seconds) {
    double all = 0;
    for (const auto& [name, value] : port.items()) {
      const bool missed = name == "device/rx_missed";
      if (!missed && !absl::StartsWith(name, "drops/")) continue;
      const double rate = Growth(port, before, name, seconds);
      drops_[missed ? "missed by the device" : name.substr(6)] += rate;
      all += rate;
    }
    return all;
  }

  // Returns the seconds since the worker's earlier answer.
  double AddWorker(const std::string& pid, const Json& worker, const Json* known) {
    const Json& core = PartField(worker, "core");
    const Json* const core_before = known == nullptr ? nullptr : &PartField(*known, "core");
    const double seconds = SecondsBetween(core, core_before);
    const Json& ports = PartField(worker, "ports");
    for (size_t i = 0; i < ports.size(); ++i) {
      const Json* port_before = nullptr;
      if (known != nullptr && i < PartField(*known, "ports").size()) {
        port_before = &PartField(*known, "ports")[i];
      }
      const Json& port = ports[i];
      const auto rate = [&](const char* name) {
        return Short(Growth(port, port_before, name, seconds));
      };
      const double resent = Growth(port, port_before, "retransmitted_pkts", seconds) +
                            Growth(port, port_before, "retransmitted_responses", seconds);
      cores_.push_back({pid, absl::StrCat(NumberField(worker, "worker")),
                        absl::StrCat(NumberField(core, "cpu")),
                        absl::StrFormat("%.1f", BusyShare(core, core_before)),
                        Printable(TextField(port, "name")), rate("sent_pkts"), rate("rcvd_pkts"),
                        rate("sent_bytes"), rate("rcvd_bytes"), Short(resent),
                        Short(Drops(port, port_before, seconds))});
    }
    return seconds;
  }

  void AddConnection(uint64_t pid_number, const Json& one, const Json* known, double seconds) {
    const std::string pid = absl::StrCat(pid_number);
    const Json& qp = PartField(one, "queue_pair");
    const Json* const before = known == nullptr ? nullptr : &PartField(*known, "queue_pair");
    const auto rate = [&](const char* name) { return Growth(qp, before, name, seconds); };
    const double out = rate("sent_bytes"), in = rate("rcvd_bytes");
    const double packets_out = rate("sent_pkts"), packets_in = rate("rcvd_pkts");
    const uint64_t resent =
        NumberField(qp, "retransmitted_pkts") + NumberField(qp, "retransmitted_responses");
    const uint64_t round_trip_ns = NumberField(qp, "round_trip_ns");
    Row row;
    row.connection = {.pid = pid_number,
                      .worker = NumberField(one, "worker"),
                      .comm_id = NumberField(one, "comm_id"),
                      .qpn = NumberField(one, "qpn"),
                      .peer = Printable(TextField(one, "peer"))};
    row.cells = {pid,
                 row.connection.peer,
                 TextField(one, "state"),
                 Short(out),
                 Short(in),
                 Grouped(resent),
                 round_trip_ns == 0 ? "" : RoundTrip(round_trip_ns),
                 qp.contains("window_pkts") ? absl::StrCat(NumberField(qp, "window_pkts")) : "",
                 Short(packets_out),
                 Short(packets_in),
                 absl::StrCat(NumberField(qp, "send_queue")),
                 absl::StrCat(NumberField(qp, "receive_queue")),
                 Age(NumberField(one, "age_ms")),
                 absl::StrCat(NumberField(one, "worker")),
                 Printable(TextField(one, "local"))};
    if (!absl::StrContains(absl::StrJoin(row.cells, " "), choice_.filter)) return;
    switch (choice_.sort) {
      case TopSort::kRate:
        row.order.first = -(out + in);
        break;
      case TopSort::kPackets:
        row.order.first = -(packets_out + packets_in);
        break;
      case TopSort::kRetransmissions:
        row.order.first = -static_cast<double>(resent);
        break;
      case TopSort::kAge:
        row.order.first = -static_cast<double>(NumberField(one, "age_ms"));
        break;
      case TopSort::kPeer:
        row.order.second = row.cells[1];
        break;
      case TopSort::kState:
        row.order.second = row.cells[2];
        break;
    }
    rows_.push_back(std::move(row));
  }

  const Json& before_;
  const TopChoice& choice_;
  std::vector<Cells> cores_;
  std::vector<Row> rows_;
  std::map<std::string, double> drops_;
};

}  // namespace

const char* TopSortName(TopSort sort) { return kSortNames[static_cast<size_t>(sort)]; }

std::optional<TopSort> ParseTopSort(const std::string& name) {
  const auto* const found = std::ranges::find(kSortNames, name);
  if (found == std::end(kSortNames)) return std::nullopt;
  return static_cast<TopSort>(found - kSortNames);
}

TopTables MakeTopTables(const Json& now, const Json& before, const TopChoice& choice) {
  TableMaker maker(before, choice);
  for (const Json& process : PartField(now, "processes")) maker.Add(process);
  return maker.Take();
}

std::vector<std::string> Fit(std::vector<std::string> head, const std::vector<std::string>& body,
                             size_t first, size_t rows, size_t columns) {
  const size_t room = rows - std::min(rows, head.size());
  first = std::min(first, body.size() - std::min(room, body.size()));
  for (size_t i = first; i < std::min(body.size(), first + room); ++i) head.push_back(body[i]);
  if (head.size() > rows) head.resize(rows);
  for (std::string& line : head) {
    if (line.size() > columns) line.resize(columns);
  }
  return head;
}

}  // namespace pollux::tools
