#include "tools/common/core_list.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace pollux::tools {
namespace {

bool ParseCpu(const std::string& text, int* cpu) {
  return absl::SimpleAtoi(text, cpu) && *cpu >= 0 && *cpu <= kMaxCpu;
}

}  // namespace

absl::StatusOr<std::vector<int>> ParseCoreList(const std::string& text) {
  std::vector<int> cores;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(text, ','))) {
    const std::pair<std::string, std::string> ends = absl::StrSplit(part, absl::MaxSplits('-', 1));
    int first = 0, last = 0;
    const bool range = part.find('-') != std::string::npos;
    if (!ParseCpu(ends.first, &first) || !ParseCpu(range ? ends.second : ends.first, &last) ||
        last < first) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", text, "' is not a list of CPUs from 0 to ", kMaxCpu, ", such as 0,2 or 2-5"));
    }
    for (int cpu = first; cpu <= last; ++cpu) {
      if (std::ranges::find(cores, cpu) != cores.end()) {
        return absl::InvalidArgumentError(absl::StrCat("'", text, "' names CPU ", cpu, " twice"));
      }
      if (cores.size() == kMaxCores) {
        return absl::InvalidArgumentError(
            absl::StrCat("'", text, "' has more than ", kMaxCores, " CPUs"));
      }
      cores.push_back(cpu);
    }
  }
  return cores;
}

absl::Status CheckCpusExist(const std::vector<int>& cpus, const std::string& root) {
  // Without sysfs nothing is known.
  if (access(absl::StrCat(root, "/cpu0").c_str(), F_OK) != 0) return absl::OkStatus();
  for (const int cpu : cpus) {
    if (access(absl::StrCat(root, "/cpu", cpu).c_str(), F_OK) == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "CPU ", cpu, ": this machine has no CPU of that number; `lscpu -e` lists its CPUs"));
  }
  return absl::OkStatus();
}

}  // namespace pollux::tools
