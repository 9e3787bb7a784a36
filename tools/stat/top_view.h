// The tables of pollux top.
#ifndef POLLUX_TOOLS_STAT_TOP_VIEW_H_
#define POLLUX_TOOLS_STAT_TOP_VIEW_H_

#include <cstddef>
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

// The lines of the tables. `now` and `before`: {"processes": [...]} with workers and connections
// from GatherStat() and GatherConnections(), taken `seconds` apart.
std::vector<std::string> TopLines(const nlohmann::ordered_json& now,
                                  const nlohmann::ordered_json& before, double seconds,
                                  const TopChoice& choice);

// The part of `lines` that fits on a screen of this size.
std::vector<std::string> Fit(std::vector<std::string> lines, size_t rows, size_t columns);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_STAT_TOP_VIEW_H_
