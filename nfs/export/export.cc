#include "nfs/export/export.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "stack/base/address.h"

namespace pollux::nfs {
namespace {

constexpr uint32_t kIpv4Bits = 32;
constexpr uint32_t kIpv6Bits = 128;

// The number of leading ones of an IPv4 netmask, which has no others.
std::optional<uint32_t> LengthOfMask(absl::string_view text) {
  const absl::StatusOr<Gid> mask = ParseAddress(text);
  if (!mask.ok() || !mask->IsIpv4()) return std::nullopt;
  const auto length = static_cast<uint32_t>(std::countl_one(mask->Ipv4()));
  const bool contiguous = length == kIpv4Bits || mask->Ipv4() << length == 0;
  return contiguous ? std::optional(length) : std::nullopt;
}

bool IsHost(const Network& network) {
  return network.prefix_length == (network.address.IsIpv4() ? kIpv4Bits : kIpv6Bits);
}

absl::Status TakeOption(absl::string_view option, ClientRights* rights,
                        std::vector<Network>* networks) {
  if (option == "no_root_squash") {
    rights->root_squash = false;
    return absl::OkStatus();
  }
  if (!absl::ConsumePrefix(&option, "clients=")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", option,
        "' is not an option of an export; the options are clients=CIDR and no_root_squash"));
  }
  const absl::StatusOr<Network> network = ParseNetwork(option);
  if (!network.ok()) return network.status();
  if (networks->size() == kMaxClientNetworks) {
    return absl::InvalidArgumentError(
        absl::StrCat("more than ", kMaxClientNetworks, " networks of clients in one export"));
  }
  networks->push_back(*network);
  return absl::OkStatus();
}

}  // namespace

const ClientRights* Export::RightsOf(const Gid& client) const {
  for (const ClientRule& rule : clients) {
    if (!rule.network.has_value() ||
        InPrefix(client, rule.network->address, rule.network->prefix_length)) {
      return &rule.rights;
    }
  }
  return nullptr;
}

void Export::RankRules() {
  std::ranges::stable_sort(clients, {}, [](const ClientRule& rule) {
    if (!rule.network.has_value()) return 2;
    return IsHost(*rule.network) ? 0 : 1;
  });
}

absl::StatusOr<Network> ParseNetwork(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('/', 1));
  const absl::StatusOr<Gid> address = ParseAddress(parts.first);
  if (!address.ok()) return address.status();
  const uint32_t longest = address->IsIpv4() ? kIpv4Bits : kIpv6Bits;
  uint32_t length = longest;
  if (parts.first.size() < text.size() && !absl::SimpleAtoi(parts.second, &length)) {
    length = (address->IsIpv4() ? LengthOfMask(parts.second) : std::nullopt).value_or(UINT32_MAX);
  }
  if (length > longest) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not a network, as in 192.0.2.0/24 or 2001:db8::/32"));
  }
  return Network{.address = *address, .prefix_length = static_cast<uint8_t>(length)};
}

bool NormalizeDirectory(std::string* directory) {
  if (!directory->starts_with('/')) return false;
  const std::vector<std::string> names = absl::StrSplit(
      *directory, '/', [](absl::string_view name) { return !name.empty() && name != "."; });
  *directory = absl::StrCat("/", absl::StrJoin(names, "/"));
  return true;
}

absl::StatusOr<Export> ParseExport(absl::string_view text) {
  Export made;
  ClientRights rights;
  std::vector<Network> networks;
  size_t end = std::string::npos;
  for (const absl::string_view mode : {":ro", ":rw"}) {
    size_t at = text.rfind(mode);
    while (at != absl::string_view::npos && at + mode.size() < text.size() &&
           text[at + mode.size()] != ',') {
      at = at == 0 ? absl::string_view::npos : text.rfind(mode, at - 1);
    }
    if (at == absl::string_view::npos || (end != std::string::npos && at < end)) continue;
    end = at;
    rights.read_only = mode == ":ro";
  }
  absl::string_view options;
  if (end == std::string::npos) {
    end = std::min(text.find(','), text.size());
    options = text.substr(end);
  } else {
    options = text.substr(end + 3);
  }
  made.directory = std::string(text.substr(0, end));
  if (!NormalizeDirectory(&made.directory)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--export ", text,
        ": no absolute directory; write DIR[:ro|rw][,OPTION]..., where DIR begins with /"));
  }
  absl::ConsumePrefix(&options, ",");
  for (const absl::string_view option : absl::StrSplit(options, ',', absl::SkipEmpty())) {
    if (absl::Status status = TakeOption(option, &rights, &networks); !status.ok()) return status;
  }
  for (const Network& network : networks) made.clients.push_back({network, rights});
  if (networks.empty()) made.clients.push_back({std::nullopt, rights});
  return made;
}

std::string FormatClients(const ClientRule& rule) {
  if (!rule.network.has_value()) return "*";
  return absl::StrCat(FormatAddress(rule.network->address), "/", rule.network->prefix_length);
}

}  // namespace pollux::nfs
