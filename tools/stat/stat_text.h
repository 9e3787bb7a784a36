// Tables of what processes tell of themselves.
#ifndef POLLUX_TOOLS_STAT_STAT_TEXT_H_
#define POLLUX_TOOLS_STAT_STAT_TEXT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace pollux::tools {

// Rows of cells under their titles, as wide as they must be; numbers to the right.
std::string Columns(const std::vector<std::string>& titles,
                    const std::vector<std::vector<std::string>>& rows);

// Of one process, as GatherStat() has it. Counters at zero are left out unless `all`. With
// `before`, of the same process `seconds` ago, what has grown is shown per second too.
std::string StatText(const nlohmann::ordered_json& process, bool all,
                     const nlohmann::ordered_json* before = nullptr, double seconds = 0);
inline constexpr size_t kMaxQueuePairsShown = 100;

// Of one process, as GatherConnections() has it.
std::string ConnectionsText(const nlohmann::ordered_json& process);

// "95 ms", "12.3 s", "4:05 min", "3:20:07 h".
std::string Age(uint64_t ms);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_STAT_STAT_TEXT_H_
