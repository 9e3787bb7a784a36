#include "tools/stat/client_locks.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "stack/base/address.h"
#include "stack/base/stats.h"
#include "tools/stat/stat_text.h"

namespace pollux::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kCounts[] = {"files", "ranges", "awaited", "shares"};

}  // namespace

std::string LineOf(const nfs::LockClient& client, const nfs::ClientLocks& locks) {
  return absl::StrCat(FormatAddress(client.address), " ", locks.files, " ", locks.ranges, " ",
                      locks.awaited, " ", locks.shares, " ", absl::CHexEscape(client.name))
      .substr(0, pollux::Stats::kMaxText);
}

absl::StatusOr<Json> ParseLocks(const std::string& line) {
  const std::vector<std::string> words = absl::StrSplit(line, absl::MaxSplits(' ', 5));
  Json locks;
  bool valid = words.size() == 6;
  if (valid) {
    locks["address"] = words[0];
    locks["name"] = words[5];
    for (size_t i = 0; i < std::size(kCounts); ++i) {
      uint64_t count = 0;
      valid &= absl::SimpleAtoi(words[1 + i], &count);
      locks[kCounts[i]] = count;
    }
  }
  if (!valid)
    return absl::DataLossError(
        absl::StrCat("'", line, "' does not describe the locks of a client"));
  return locks;
}

std::string LocksText(const Json& locks) {
  std::vector<std::vector<std::string>> rows;
  for (const Json& one : locks) {
    std::vector<std::string> row = {one["address"].get<std::string>(),
                                    one["name"].get<std::string>()};
    for (const char* count : kCounts) row.push_back(absl::StrCat(one[count].get<uint64_t>()));
    rows.push_back(std::move(row));
  }
  return Columns({"client", "name", "files", "ranges", "awaited", "shares"}, rows);
}

}  // namespace pollux::tools
