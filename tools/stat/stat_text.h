// Tables of the statistics of processes.
#ifndef POLLUX_TOOLS_STAT_STAT_TEXT_H_
#define POLLUX_TOOLS_STAT_STAT_TEXT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace pollux::tools {

// Rows of cells below their titles. Columns are as wide as necessary, and numbers are
// right-aligned.
std::string Columns(const std::vector<std::string>& titles,
                    const std::vector<std::vector<std::string>>& rows);

// The tables of one process from GatherStat(). Counters at 0 are left out unless `all`. With
// `before`, earlier statistics of the same process, counters that have grown are also shown per
// second.
std::string StatText(const nlohmann::ordered_json& process, bool all,
                     const nlohmann::ordered_json* before = nullptr);
inline constexpr size_t kMaxQueuePairsShown = 100;

// The tables of one process from GatherConnections().
std::string ConnectionsText(const nlohmann::ordered_json& process);

// "95 ms", "12.3 s", "4:05 min", "3:20:07 h".
std::string Age(uint64_t ms);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_STAT_STAT_TEXT_H_
