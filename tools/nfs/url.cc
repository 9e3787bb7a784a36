#include "tools/nfs/url.h"

#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "nfs/v3/binding.h"
#include "tools/common/peer_address.h"

namespace pollux::tools {
namespace {

constexpr uint32_t kMaxPort = 65535;

absl::Status WrongUrl(const std::string& text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "': ", why, "; a URL is nfs://HOST[:PORT]/export/path"));
}

// Nothing for a % that no two hexadecimal digits follow, and for what no name of a file has.
std::optional<std::string> DecodeName(absl::string_view text) {
  std::string name;
  while (!text.empty()) {
    char byte = text.front();
    size_t length = 1;
    if (byte == '%') {
      length = 3;
      if (text.size() < length || !absl::ascii_isxdigit(static_cast<unsigned char>(text[1])) ||
          !absl::ascii_isxdigit(static_cast<unsigned char>(text[2]))) {
        return std::nullopt;
      }
      uint32_t value = 0;
      (void)absl::SimpleHexAtoi(text.substr(1, 2), &value);
      byte = static_cast<char>(value);
      if (byte == '/' || byte == '\0') return std::nullopt;
    }
    name.push_back(byte);
    text.remove_prefix(length);
  }
  return name;
}

struct HostPort {
  std::string host;
  uint16_t port;
};

absl::StatusOr<HostPort> SplitHostPort(const std::string& text, uint16_t default_port) {
  absl::string_view host = text;
  absl::string_view port;
  bool has_port = false;
  if (absl::ConsumePrefix(&host, "[")) {
    const size_t end = host.find(']');
    if (end == absl::string_view::npos) {
      return absl::InvalidArgumentError(absl::StrCat("'", text, "' has no ']'"));
    }
    port = host.substr(end + 1);
    host = host.substr(0, end);
    has_port = absl::ConsumePrefix(&port, ":");
    if (!has_port && !port.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("'", text, "': no port after ']'"));
    }
  } else if (const size_t colon = host.find(':');
             colon != absl::string_view::npos && colon == host.rfind(':')) {
    port = host.substr(colon + 1);
    host = host.substr(0, colon);
    has_port = true;
  }
  uint32_t number = default_port;
  if (has_port && (!absl::SimpleAtoi(port, &number) || number == 0 || number > kMaxPort)) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "': '", port, "' is not a port"));
  }
  return HostPort{.host = std::string(host), .port = static_cast<uint16_t>(number)};
}

}  // namespace

absl::StatusOr<SocketAddress> ResolveHostPort(const std::string& text, uint16_t default_port) {
  const auto split = SplitHostPort(text, default_port);
  if (!split.ok()) return split.status();
  const auto addresses = ResolveHost(split->host);
  if (!addresses.ok()) return addresses.status();
  return SocketAddress{.address = addresses->front(), .port = split->port};
}

absl::StatusOr<NfsUrl> ResolveNfsUrl(const std::string& text) {
  absl::string_view rest = text;
  if (!absl::ConsumePrefix(&rest, "nfs://")) return WrongUrl(text, "it does not begin with nfs://");
  const size_t slash = rest.find('/');
  if (slash == absl::string_view::npos) return WrongUrl(text, "no path");
  const auto server = SplitHostPort(std::string(rest.substr(0, slash)), nfs::kNfsRdmaPort);
  if (!server.ok()) return WrongUrl(text, server.status().message());
  NfsUrl url;
  url.port = server->port;
  for (const absl::string_view part : absl::StrSplit(rest.substr(slash), '/', absl::SkipEmpty())) {
    const std::optional<std::string> name = DecodeName(part);
    if (!name.has_value()) {
      return WrongUrl(text, absl::StrCat("'", part, "' is not a name: a % is written %25"));
    }
    if (*name == "..") return WrongUrl(text, "'..' in the path");
    if (*name != ".") absl::StrAppend(&url.path, "/", *name);
  }
  if (url.path.empty()) url.path.push_back('/');
  auto servers = ResolvePeer(server->host);
  if (absl::IsInvalidArgument(servers.status())) return WrongUrl(text, servers.status().message());
  if (!servers.ok()) return servers.status();
  url.servers = *std::move(servers);
  return url;
}

}  // namespace pollux::tools
