#include "stack/kernel/roce_udp_port.h"

#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "stack/wire/roce_packet.h"

namespace pollux::kernel {
namespace {

// A process opens its packet socket soon after it has bound the port.
constexpr int kLooks = 50;
constexpr std::chrono::milliseconds kBetweenLooks{20};

// Opens the socket, which Bind() gives its address.
absl::StatusOr<Fd> Open(int family, const std::string& interface) {
  Fd fd(socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.ok()) return absl::ErrnoToStatus(errno, "opening a UDP socket");
  // What arrives is dropped before it takes memory, and wakes nobody.
  sock_filter drop_all = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{.len = 1, .filter = &drop_all};
  (void)setsockopt(fd.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
  const int least = 1;  // the kernel makes it its own least
  (void)setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &least, sizeof least);
  (void)setsockopt(fd.get(), SOL_SOCKET, SO_BINDTODEVICE, interface.c_str(),
                   static_cast<socklen_t>(interface.size()));
  const int on = 1;
  if (family == AF_INET6) (void)setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  return fd;
}

// Returns 0 or the error's number.
int BindToRocePort(const Fd& fd, int family) {
  sockaddr_in ipv4{};
  ipv4.sin_family = AF_INET;
  ipv4.sin_port = htons(wire::kRocePort);
  sockaddr_in6 ipv6{};
  ipv6.sin6_family = AF_INET6;
  ipv6.sin6_port = htons(wire::kRocePort);
  const bool bound =
      family == AF_INET
          ? bind(fd.get(), reinterpret_cast<const sockaddr*>(&ipv4), sizeof ipv4) == 0
          : bind(fd.get(), reinterpret_cast<const sockaddr*>(&ipv6), sizeof ipv6) == 0;
  return bound ? 0 : errno;
}

// The fields of each line of a table in /proc/net, without its heading.
std::vector<std::vector<std::string>> Table(const std::string& name) {
  std::vector<std::vector<std::string>> rows;
  std::ifstream file("/proc/thread-self/net/" + name);
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) rows.push_back(absl::StrSplit(line, ' ', absl::SkipEmpty()));
  return rows;
}

std::set<std::string> UsersOfPacketSockets(uint32_t interface_index) {
  constexpr size_t kInterface = 4, kUser = 7;
  std::set<std::string> users;
  for (const auto& row : Table("packet")) {
    if (row.size() > kUser && row[kInterface] == absl::StrCat(interface_index)) {
      users.insert(row[kUser]);
    }
  }
  return users;
}

std::set<std::string> UsersOfRocePort() {
  constexpr size_t kLocal = 1, kUser = 7;
  const std::string port = absl::StrCat(":", absl::Hex(wire::kRocePort, absl::kZeroPad4));
  std::set<std::string> users;
  for (const char* table : {"udp", "udp6"}) {
    for (const auto& row : Table(table)) {
      if (row.size() > kUser && absl::EndsWithIgnoreCase(row[kLocal], port))
        users.insert(row[kUser]);
    }
  }
  return users;
}

// The user of a program that has the port although it may not open a packet socket: any user can
// bind the port, claim its name and read what arrives.
std::optional<std::string> UserWithoutRight(uint32_t interface_index) {
  const std::set<std::string> with_right = UsersOfPacketSockets(interface_index);
  for (const std::string& user : UsersOfRocePort()) {
    if (user != "0" && user != absl::StrCat(geteuid()) && !with_right.contains(user)) return user;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RoceUdpPort>> RoceUdpPort::Hold(const std::string& interface,
                                                               uint32_t interface_index) {
  std::unique_ptr<RoceUdpPort> port(new RoceUdpPort(interface, interface_index));
  if (absl::Status status = port->Bind(); !status.ok()) return status;
  if (port->is_bound()) return port;
  std::optional<std::string> stranger = UserWithoutRight(interface_index);
  for (int look = 1; look < kLooks && stranger; ++look) {
    std::this_thread::sleep_for(kBetweenLooks);
    stranger = UserWithoutRight(interface_index);
  }
  if (!stranger) return port;
  return absl::AlreadyExistsError(absl::StrCat(
      "interface \"", interface, "\": UDP port ", wire::kRocePort,
      " is taken by a program of user ", *stranger,
      ", who has no packet socket on the interface; end the program (`ss -ulpn sport = ",
      wire::kRocePort, "` names it)"));
}

void RoceUdpPort::TakeOver() {
  if (!is_bound()) Bind().IgnoreError();
}

absl::Status RoceUdpPort::Bind() {
  // The sockets before the claim: the kernel closes the descriptors of a process that ends from the
  // lowest to the highest, so that whoever has the claim next finds the port free.
  absl::StatusOr<Fd> ipv4 = Open(AF_INET, interface_);
  if (!ipv4.ok()) return ipv4.status();
  absl::StatusOr<Fd> ipv6 = Open(AF_INET6, interface_);
  absl::StatusOr<NameClaim> claim =
      NameClaim::Take(absl::StrCat(interface_index_, "/udp/", wire::kRocePort));
  if (absl::IsAlreadyExists(claim.status())) return absl::OkStatus();
  if (!claim.ok()) return claim.status();
  int error = BindToRocePort(*ipv4, AF_INET);
  if (error == 0 && ipv6.ok() && BindToRocePort(*ipv6, AF_INET6) == EADDRINUSE) error = EADDRINUSE;
  if (error == EADDRINUSE) {
    return absl::AlreadyExistsError(absl::StrCat(
        "interface \"", interface_, "\": UDP port ", wire::kRocePort,
        " is taken: by Linux's soft-RoCE (`rdma link`; `modprobe -r rdma_rxe`) or by another "
        "program that speaks RoCE there (`ss -ulpn sport = ",
        wire::kRocePort, "` names it)"));
  }
  if (error != 0) {
    return absl::ErrnoToStatus(
        error, absl::StrCat("interface \"", interface_, "\": UDP port ", wire::kRocePort));
  }
  claim_ = *std::move(claim);
  ipv4_ = *std::move(ipv4);
  if (ipv6.ok()) ipv6_ = *std::move(ipv6);
  return absl::OkStatus();
}

}  // namespace pollux::kernel
