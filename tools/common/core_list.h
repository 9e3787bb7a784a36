// Lists of CPUs in text form.
#ifndef POLLUX_TOOLS_COMMON_CORE_LIST_H_
#define POLLUX_TOOLS_COMMON_CORE_LIST_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cm/gsi/shard.h"

namespace pollux::tools {

inline constexpr int kMaxCpu = 1023;
inline constexpr size_t kMaxCores = cm::Shard::kMaxCount;  // each has its own CM manager

// Parses "0,2", "2-5" or a combination; keeps the order. InvalidArgument for other text, CPUs
// beyond kMaxCpu, repeated CPUs, and more than kMaxCores.
absl::StatusOr<std::vector<int>> ParseCoreList(const std::string& text);
// InvalidArgument for a CPU that the machine does not have, according to `root` (sysfs). Does not
// check whether the process may run on it.
absl::Status CheckCpusExist(const std::vector<int>& cpus,
                            const std::string& root = "/sys/devices/system/cpu");

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_CORE_LIST_H_
