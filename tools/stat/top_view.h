// The tables of pollux top.
#ifndef POLLUX_TOOLS_STAT_TOP_VIEW_H_
#define POLLUX_TOOLS_STAT_TOP_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace pollux::tools {

// The sort key of connections. The largest number, or the first text in alphabetical order, is at
// the top.
enum class TopSort { kRate, kPackets, kRetransmissions, kAge, kPeer, kState };
// "rate", "packets", "retransmissions", "age", "peer", "state".
const char* TopSortName(TopSort sort);
std::optional<TopSort> ParseTopSort(const std::string& name);

struct TopChoice {
  TopSort sort = TopSort::kRate;
  std::string filter;  // only connections with this text in their row; empty: all
};

struct TopConnection {
  uint64_t pid = 0;
  uint64_t worker = 0;
  uint64_t comm_id = 0;
  uint64_t qpn = 0;  // 0: none
  std::string peer;
  bool operator==(const TopConnection&) const = default;
};

struct TopTables {
  std::vector<std::string> head;  // cores, drops, and the titles of the connections' columns
  std::vector<std::string> rows;  // one per connection, in order
  std::vector<TopConnection> connections;  // of the rows
};

// `now` and `before`: {"processes": [...]} with workers and connections from GatherStat() and
// GatherConnections(). Rates refer to the time between a worker's two answers, by its own clock.
TopTables MakeTopTables(const nlohmann::ordered_json& now, const nlohmann::ordered_json& before,
                        const TopChoice& choice);

// The part of `head` and of `body` below it that fits on a screen of this size; the first line of
// `body` is that with number `first`, or an earlier one if the screen has room for it.
std::vector<std::string> Fit(std::vector<std::string> head, const std::vector<std::string>& body,
                             size_t first, size_t rows, size_t columns);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_STAT_TOP_VIEW_H_
