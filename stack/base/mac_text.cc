#include "stack/base/mac_text.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace pollux {

absl::StatusOr<MacAddress> ParseMac(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  MacAddress mac{};
  bool good = parts.size() == mac.size();
  for (size_t i = 0; good && i < mac.size(); ++i) {
    uint32_t byte = 0;
    // SimpleHexAtoi() takes signs and prefixes too.
    good = parts[i].size() == 2 && std::ranges::all_of(parts[i], absl::ascii_isxdigit) &&
           absl::SimpleHexAtoi(parts[i], &byte);
    mac[i] = static_cast<uint8_t>(byte);
  }
  if (!good || (mac[0] & 1) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not a unicast MAC address, as in 02:00:00:00:00:01"));
  }
  return mac;
}

}  // namespace pollux
