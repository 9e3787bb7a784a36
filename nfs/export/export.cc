#include "nfs/export/export.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "stack/base/address.h"

namespace pollux::nfs {
namespace {

constexpr uint32_t kIpv4Bits = 32;
constexpr uint32_t kIpv6Bits = 128;

absl::StatusOr<Network> ParseNetwork(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('/', 1));
  const absl::StatusOr<Gid> address = ParseAddress(parts.first);
  if (!address.ok()) return address.status();
  const uint32_t longest = address->IsIpv4() ? kIpv4Bits : kIpv6Bits;
  uint32_t length = longest;
  const bool has_length = parts.first.size() < text.size();
  if (has_length && (!absl::SimpleAtoi(parts.second, &length) || length > longest)) {
    return absl::InvalidArgumentError(
        absl::StrCat("clients=", text, ": not a network, as in 192.0.2.0/24 or 2001:db8::/32"));
  }
  return Network{.address = *address, .prefix_length = static_cast<uint8_t>(length)};
}

absl::Status TakeOption(absl::string_view option, Export* made) {
  if (option == "no_root_squash") {
    made->root_squash = false;
    return absl::OkStatus();
  }
  if (!absl::ConsumePrefix(&option, "clients=")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", option,
        "' is not an option of an export; the options are clients=CIDR and no_root_squash"));
  }
  const absl::StatusOr<Network> network = ParseNetwork(option);
  if (!network.ok()) return network.status();
  if (made->clients.size() == kMaxClientNetworks) {
    return absl::InvalidArgumentError(
        absl::StrCat("more than ", kMaxClientNetworks, " networks of clients in one export"));
  }
  made->clients.push_back(*network);
  return absl::OkStatus();
}

}  // namespace

bool Export::Admits(const Gid& client) const {
  return clients.empty() || std::ranges::any_of(clients, [&](const Network& network) {
           return InPrefix(client, network.address, network.prefix_length);
         });
}

absl::StatusOr<Export> ParseExport(absl::string_view text) {
  Export made;
  size_t end = std::string::npos;
  for (const absl::string_view mode : {":ro", ":rw"}) {
    size_t at = text.rfind(mode);
    while (at != absl::string_view::npos && at + mode.size() < text.size() &&
           text[at + mode.size()] != ',') {
      at = at == 0 ? absl::string_view::npos : text.rfind(mode, at - 1);
    }
    if (at == absl::string_view::npos || (end != std::string::npos && at < end)) continue;
    end = at;
    made.read_only = mode == ":ro";
  }
  absl::string_view options;
  if (end == std::string::npos) {
    end = std::min(text.find(','), text.size());
    options = text.substr(end);
  } else {
    options = text.substr(end + 3);
  }
  made.directory = std::string(text.substr(0, end));
  while (made.directory.size() > 1 && made.directory.back() == '/') made.directory.pop_back();
  if (made.directory.empty() || made.directory[0] != '/') {
    return absl::InvalidArgumentError(absl::StrCat(
        "--export ", text,
        ": no absolute directory; write DIR[:ro|rw][,OPTION]..., where DIR begins with /"));
  }
  absl::ConsumePrefix(&options, ",");
  for (const absl::string_view option : absl::StrSplit(options, ',', absl::SkipEmpty())) {
    if (absl::Status status = TakeOption(option, &made); !status.ok()) return status;
  }
  return made;
}

std::string FormatNetwork(const Network& network) {
  return absl::StrCat(FormatAddress(network.address), "/", network.prefix_length);
}

}  // namespace pollux::nfs
