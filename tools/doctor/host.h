// The state of a host: files below a root, and answers of the kernel.
#ifndef POLLUX_TOOLS_DOCTOR_HOST_H_
#define POLLUX_TOOLS_DOCTOR_HOST_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace pollux::tools {

inline constexpr uint16_t kRocePort = 4791;

// An interface in this process's network namespace, which /sys need not show: it belongs to the
// namespace in which it was mounted.
struct InterfaceFacts {
  bool up = false;
  bool carrier = false;
  bool loopback = false;
  uint32_t mtu = 0;
  size_t addresses = 0;          // IPv4 and IPv6
  bool roce_port_taken = false;  // UDP port 4791, by a socket that serves this interface
};

// Asks the kernel; nothing: no such interface.
std::optional<InterfaceFacts> LookAtInterface(const std::string& name);

struct Host {
  std::string root;  // before every path; empty: this host
  std::function<std::optional<InterfaceFacts>(const std::string& name)> interface = LookAtInterface;
  std::string dpdk_version;  // "DPDK 22.11.11"

  // `path` begins with a slash. Where nothing can be read, empty.
  std::string Text(const std::string& path) const;
  std::string Line(const std::string& path) const;  // the first, without blanks around it
  std::vector<std::string> List(const std::string& path) const;  // names in a folder, sorted
  std::string LinkName(const std::string& path) const;  // the last part of where a link leads
  bool Exists(const std::string& path) const;
  bool CanUse(const std::string& path) const;  // this process may read and write it
};

// Who has a socket at a UDP port, by /proc. A socket of the kernel's own, and one of a process that
// this one may not see, look alike: they are one owner without a process.
struct PortOwner {
  std::string name;
  uint64_t pid = 0;  // 0: no process that is visible here
};
std::vector<PortOwner> OwnersOfUdpPort(const Host& host, uint16_t port);

// Of this process, as a set of bits (linux/capability.h).
uint64_t EffectiveCapabilities(const Host& host);
// Those that a program which this process starts can still get, as root too.
uint64_t BoundingCapabilities(const Host& host);
// The soft limit in bytes; nothing: unlimited.
std::optional<uint64_t> LockedMemoryLimit(const Host& host);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_DOCTOR_HOST_H_
