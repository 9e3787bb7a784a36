// Lists of CPUs as people write them.
#ifndef POLLUX_TOOLS_COMMON_CORE_LIST_H_
#define POLLUX_TOOLS_COMMON_CORE_LIST_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cm/gsi/shard.h"

namespace pollux::tools {

inline constexpr int kMaxCpu = 1023;
inline constexpr size_t kMaxCores = cm::Shard::kMaxCount;  // each polls with a manager of its own

// "0,2", "2-5" or both in one, in the order given. InvalidArgument for what is no such list, CPUs
// beyond kMaxCpu, one that is named twice, and more than kMaxCores.
absl::StatusOr<std::vector<int>> ParseCoreList(const std::string& text);
// InvalidArgument for a CPU that the machine has not, by `root` (sysfs). That a process may not run
// on one is found when it tries.
absl::Status CheckCpusExist(const std::vector<int>& cpus,
                            const std::string& root = "/sys/devices/system/cpu");

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_CORE_LIST_H_
