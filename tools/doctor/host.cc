#include "tools/doctor/host.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace pollux::tools {
namespace {

namespace fs = std::filesystem;

bool IsTaken(int family, const std::string& interface) {
  const int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const absl::Cleanup close_it = [fd] { close(fd); };
  setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface.c_str(),
             static_cast<socklen_t>(interface.size()));
  sockaddr_in ipv4{};
  ipv4.sin_family = AF_INET;
  ipv4.sin_port = htons(kRocePort);
  sockaddr_in6 ipv6{};
  ipv6.sin6_family = AF_INET6;
  ipv6.sin6_port = htons(kRocePort);
  const int on = 1;
  if (family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  const int bound = family == AF_INET
                        ? bind(fd, reinterpret_cast<const sockaddr*>(&ipv4), sizeof ipv4)
                        : bind(fd, reinterpret_cast<const sockaddr*>(&ipv6), sizeof ipv6);
  return bound != 0 && errno == EADDRINUSE;
}

// Whether a program of Pollux says that it has bound the port, which others then share.
bool IsClaimedByPollux(const std::string& interface) {
  const std::string claim =
      absl::StrCat(" @pollux/", if_nametoindex(interface.c_str()), "/udp/", kRocePort);
  std::ifstream file("/proc/thread-self/net/unix");
  for (std::string line; std::getline(file, line);) {
    if (absl::EndsWith(line, claim)) return true;
  }
  return false;
}

// For an IPv4 address, getifaddrs() returns the address's label instead of the interface's name.
// The label is that name, or that name with a colon and a suffix. `interface` may be an alternative
// name.
size_t Addresses(const std::string& interface) {
  char name[IF_NAMESIZE];
  ifaddrs* all = nullptr;
  if (if_indextoname(if_nametoindex(interface.c_str()), name) == nullptr) return 0;
  if (getifaddrs(&all) != 0) return 0;
  const std::string labels = absl::StrCat(name, ":");
  size_t count = 0;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    if (!absl::StartsWith(absl::StrCat(one->ifa_name, ":"), labels)) continue;
    const int family = one->ifa_addr->sa_family;
    if (family == AF_INET || family == AF_INET6) ++count;
  }
  freeifaddrs(all);
  return count;
}

}  // namespace

std::optional<InterfaceFacts> LookAtInterface(const std::string& name) {
  ifreq request{};
  if (name.size() >= sizeof request.ifr_name) return std::nullopt;
  std::copy(name.begin(), name.end(), request.ifr_name);
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::nullopt;
  const absl::Cleanup close_it = [fd] { close(fd); };
  InterfaceFacts facts;
  if (ioctl(fd, SIOCGIFFLAGS, &request) != 0) return std::nullopt;
  facts.up = (request.ifr_flags & IFF_UP) != 0;
  facts.carrier = (request.ifr_flags & IFF_RUNNING) != 0;
  facts.loopback = (request.ifr_flags & IFF_LOOPBACK) != 0;
  if (ioctl(fd, SIOCGIFMTU, &request) != 0) return std::nullopt;
  facts.mtu = static_cast<uint32_t>(std::max(request.ifr_mtu, 0));
  facts.addresses = Addresses(name);
  facts.roce_port_taken =
      (IsTaken(AF_INET, name) || IsTaken(AF_INET6, name)) && !IsClaimedByPollux(name);
  request = {.ifr_ifrn = {.ifrn_name = "lo"}, .ifr_ifru = {}};
  facts.lo_up = ioctl(fd, SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_UP) != 0;
  const Host host;
  if (host.Line(absl::StrCat("/sys/class/net/", name, "/ifindex")) ==
      absl::StrCat(if_nametoindex(name.c_str()))) {
    facts.lower = LowerInterfaces(host, name);
  }
  return facts;
}

std::string Host::Text(const std::string& path) const {
  std::ifstream file(root + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string Host::Line(const std::string& path) const {
  std::ifstream file(root + path);
  std::string line;
  std::getline(file, line);
  return std::string(absl::StripAsciiWhitespace(line));
}

std::vector<std::string> Host::List(const std::string& path) const {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(root + path, error), end; !error && at != end;
       at.increment(error)) {
    names.push_back(at->path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string Host::LinkName(const std::string& path) const {
  std::error_code error;
  return fs::read_symlink(root + path, error).filename();
}

bool Host::Exists(const std::string& path) const {
  std::error_code error;
  return fs::exists(root + path, error);
}

bool Host::CanUse(const std::string& path) const {
  return access((root + path).c_str(), R_OK | W_OK) == 0;
}

namespace {

// The inodes of sockets that are bound to `port`.
void AddInodes(const Host& host, const std::string& path, uint16_t port,
               std::vector<std::string>* inodes) {
  const std::string text = host.Text(path);
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipWhitespace());
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> fields = absl::StrSplit(lines[i], ' ', absl::SkipWhitespace());
    if (fields.size() < 10) continue;
    const size_t colon = fields[1].find(':');
    uint32_t local = 0;
    if (colon == std::string::npos || !absl::SimpleHexAtoi(fields[1].substr(colon + 1), &local) ||
        local != port) {
      continue;
    }
    if (std::find(inodes->begin(), inodes->end(), fields[9]) == inodes->end()) {
      inodes->push_back(fields[9]);
    }
  }
}

// The set of that name in /proc/self/status, such as "CapEff:".
uint64_t CapabilitySet(const Host& host, absl::string_view name) {
  const std::string text = host.Text("/proc/self/status");
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StartsWith(line, name)) continue;
    uint64_t bits = 0;
    if (absl::SimpleHexAtoi(absl::StripAsciiWhitespace(line.substr(name.size())), &bits)) {
      return bits;
    }
  }
  return 0;
}

}  // namespace

std::vector<PortOwner> OwnersOfUdpPort(const Host& host, uint16_t port) {
  std::vector<std::string> inodes;
  AddInodes(host, "/proc/net/udp", port, &inodes);
  AddInodes(host, "/proc/net/udp6", port, &inodes);
  std::vector<PortOwner> owners;
  if (inodes.empty()) return owners;
  for (const std::string& process : host.List("/proc")) {
    uint64_t pid = 0;
    if (!absl::SimpleAtoi(process, &pid)) continue;
    const size_t before = inodes.size();
    for (const std::string& fd : host.List(absl::StrCat("/proc/", pid, "/fd"))) {
      std::erase_if(inodes, [link = host.LinkName(absl::StrCat("/proc/", pid, "/fd/", fd))](
                                const std::string& inode) {
        return link == absl::StrCat("socket:[", inode, "]");
      });
    }
    if (inodes.size() == before) continue;
    owners.push_back({.name = host.Line(absl::StrCat("/proc/", pid, "/comm")), .pid = pid});
  }
  if (!inodes.empty()) owners.push_back({.name = ""});
  return owners;
}

std::vector<LowerInterface> LowerInterfaces(const Host& host, const std::string& interface) {
  constexpr absl::string_view kLower = "lower_";
  const std::string folder = "/sys/class/net/";
  std::vector<LowerInterface> found;
  std::string above = interface;
  for (size_t looked_at = 0;; ++looked_at) {
    for (const std::string& entry : host.List(folder + above)) {
      if (!absl::StartsWith(entry, kLower)) continue;
      LowerInterface one{.name = entry.substr(kLower.size())};
      const bool known = std::any_of(found.begin(), found.end(),
                                     [&one](const auto& other) { return other.name == one.name; });
      if (known || !absl::SimpleAtoi(host.Line(absl::StrCat(folder, one.name, "/mtu")), &one.mtu))
        continue;
      found.push_back(std::move(one));
    }
    if (looked_at == found.size()) break;
    above = found[looked_at].name;
  }
  std::reverse(found.begin(), found.end());
  return found;
}

bool SharesRocePort(const Host& host) {
  const std::string text = host.Text("/proc/thread-self/net/unix");
  const std::string name = absl::StrCat("/udp/", kRocePort);
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StrContains(line, " @pollux/") && absl::EndsWith(line, name)) return true;
  }
  return false;
}

uint64_t EffectiveCapabilities(const Host& host) { return CapabilitySet(host, "CapEff:"); }

uint64_t BoundingCapabilities(const Host& host) { return CapabilitySet(host, "CapBnd:"); }

std::optional<uint64_t> LockedMemoryLimit(const Host& host) {
  constexpr absl::string_view kTitle = "Max locked memory";
  const std::string text = host.Text("/proc/self/limits");
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StartsWith(line, kTitle)) continue;
    const std::vector<std::string> fields =
        absl::StrSplit(line.substr(kTitle.size()), ' ', absl::SkipWhitespace());
    uint64_t bytes = 0;
    if (fields.empty() || fields[0] == "unlimited") return std::nullopt;
    return absl::SimpleAtoi(fields[0], &bytes) ? bytes : 0;
  }
  return 0;
}

}  // namespace pollux::tools
