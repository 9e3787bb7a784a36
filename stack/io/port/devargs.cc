#include "stack/io/port/devargs.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace pollux::io {
namespace {

bool IsHex(const std::string& text, size_t length) {
  return text.size() == length &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isxdigit(c); });
}

// "[dddd:]bb:dd.f" in full form and lower case, as DPDK names the device; nothing when the text is
// not a PCI address.
std::optional<std::string> AsPciAddress(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  if (parts.size() != 2 && parts.size() != 3) return std::nullopt;
  if (parts.size() == 3 && !IsHex(parts[0], 4)) return std::nullopt;
  const std::vector<std::string> device = absl::StrSplit(parts.back(), '.');
  if (!IsHex(parts[parts.size() - 2], 2) || device.size() != 2) return std::nullopt;
  if (!IsHex(device[0], 2) || device[1].size() != 1 || device[1][0] < '0' || device[1][0] > '7') {
    return std::nullopt;
  }
  return absl::AsciiStrToLower(parts.size() == 3 ? text : absl::StrCat("0000:", text));
}

}  // namespace

Driver DriverOf(const std::string& devargs) {
  if (AsPciAddress(devargs.substr(0, devargs.find(',')))) return Driver::kPci;
  if (absl::StartsWith(devargs, "net_ring")) return Driver::kRing;
  if (absl::StartsWith(devargs, "net_memif")) return Driver::kMemif;
  if (absl::StartsWith(devargs, "net_af_packet")) return Driver::kAfPacket;
  if (absl::StartsWith(devargs, "net_af_xdp")) return Driver::kAfXdp;
  if (absl::StartsWith(devargs, "net_tap")) return Driver::kTap;
  return Driver::kOther;
}

absl::StatusOr<Devargs> Devargs::Parse(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  if (parts[0].empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("port \"", text,
                     "\": the device is missing; give for example net_tap0,iface=plx0 or a PCI "
                     "address such as 0000:03:00.0"));
  }
  Devargs result;
  result.driver_ = DriverOf(parts[0]);
  result.name_ = AsPciAddress(parts[0]).value_or(parts[0]);
  for (size_t i = 1; i < parts.size(); ++i) {
    const size_t equals = parts[i].find('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("port \"", text, "\": \"", parts[i], "\" is not of the form key=value"));
    }
    result.arguments_.emplace_back(parts[i].substr(0, equals), parts[i].substr(equals + 1));
  }
  return result;
}

std::optional<std::string> Devargs::Get(const std::string& key) const {
  for (const auto& [name, value] : arguments_) {
    if (name == key) return value;
  }
  return std::nullopt;
}

std::optional<uint32_t> Devargs::GetNumber(const std::string& key) const {
  const std::optional<std::string> text = Get(key);
  uint32_t number;
  if (!text || !absl::SimpleAtoi(*text, &number)) return std::nullopt;
  return number;
}

void Devargs::SetDefault(const std::string& key, const std::string& value) {
  if (!Get(key)) arguments_.emplace_back(key, value);
}

std::string Devargs::ToString() const {
  std::string text = name_;
  for (const auto& [key, value] : arguments_) absl::StrAppend(&text, ",", key, "=", value);
  return text;
}

}  // namespace pollux::io
