// The tables of pollux top.
#ifndef POLLUX_TOOLS_STAT_TOP_VIEW_H_
#define POLLUX_TOOLS_STAT_TOP_VIEW_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace pollux::tools {

// The sort key of connections. The largest number, or the first text, stands at the top.
enum class TopSort { kRate, kPackets, kRetransmissions, kAge, kPeer, kState };
// "rate", "packets", "retransmissions", "age", "peer", "state".
const char* TopSortName(TopSort sort);
std::optional<TopSort> ParseTopSort(const std::string& name);

struct TopChoice {
  TopSort sort = TopSort::kRate;
  std::string filter;  // only connections with it in their row; empty: all
};

// Each line of the tables. `now` and `before`: {"processes": [...]} with workers and connections,
// as GatherStat() and GatherConnections() have them; `seconds` lie between.
std::vector<std::string> TopLines(const nlohmann::ordered_json& now,
                                  const nlohmann::ordered_json& before, double seconds,
                                  const TopChoice& choice);

// The part of `lines` that fits a screen of that size.
std::vector<std::string> Fit(std::vector<std::string> lines, size_t rows, size_t columns);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_STAT_TOP_VIEW_H_
