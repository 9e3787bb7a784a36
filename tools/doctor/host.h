// The state of a host, from files below a root directory and from the kernel.
#ifndef POLLUX_TOOLS_DOCTOR_HOST_H_
#define POLLUX_TOOLS_DOCTOR_HOST_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace pollux::tools {

inline constexpr uint16_t kRocePort = 4791;

// An interface through which another one sends: a port of a bridge, or the parent of a VLAN.
struct LowerInterface {
  std::string name;
  uint32_t mtu = 0;
};

// An interface in this process's network namespace. /sys may not show it, because /sys belongs to
// the namespace in which it was mounted.
struct InterfaceFacts {
  bool up = false;
  bool carrier = false;
  bool loopback = false;
  uint32_t mtu = 0;
  size_t addresses = 0;  // IPv4 and IPv6
  // UDP port 4791 is in use on this interface by another program than Pollux.
  bool roce_port_taken = false;
  bool lo_up = true;  // the loopback interface of this network namespace
  // The result of LowerInterfaces(); empty if /sys shows another namespace.
  std::vector<LowerInterface> lower = {};
};

// Asks the kernel. Returns nothing if there is no such interface.
std::optional<InterfaceFacts> LookAtInterface(const std::string& name);

struct Host {
  std::string root;  // prefix of every path; empty: this host
  std::function<std::optional<InterfaceFacts>(const std::string& name)> interface = LookAtInterface;
  std::string dpdk_version;  // "DPDK 22.11.11"

  // Returns the contents of a file; empty if it cannot be read. `path` begins with a slash.
  std::string Text(const std::string& path) const;
  std::string Line(const std::string& path) const;  // the first line, without surrounding blanks
  std::vector<std::string> List(const std::string& path) const;  // names in a directory, sorted
  std::string LinkName(const std::string& path) const;  // the last component of a link's target
  bool Exists(const std::string& path) const;
  bool CanUse(const std::string& path) const;  // this process may read and write it
};

// The owner of a socket at a UDP port, according to /proc. A socket of the kernel and one of a
// process that is not visible here look the same: both count as one owner without a process.
struct PortOwner {
  std::string name;
  uint64_t pid = 0;  // 0: no visible process
};
std::vector<PortOwner> OwnersOfUdpPort(const Host& host, uint16_t port);
// All interfaces below `interface` according to /sys, direct and indirect ones, the lowest first.
std::vector<LowerInterface> LowerInterfaces(const Host& host, const std::string& interface);
// Whether a program of Pollux has bound UDP port 4791 of an interface, which others then share.
bool SharesRocePort(const Host& host);

// The capabilities of this process as a set of bits (linux/capability.h).
uint64_t EffectiveCapabilities(const Host& host);
// The capabilities that a program started by this process can still gain, even as root.
uint64_t BoundingCapabilities(const Host& host);
// The soft limit in bytes; nothing: unlimited.
std::optional<uint64_t> LockedMemoryLimit(const Host& host);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_DOCTOR_HOST_H_
