#include "stack/kernel/roce_udp_port.h"

#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
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

// A process claims the name, and opens its packet socket, soon after it has bound the port; and one
// that ends may release the name first.
constexpr int kLooks = 26;
constexpr std::chrono::milliseconds kBetweenLooks{20};

// Opens a socket that is still to be bound.
absl::StatusOr<Fd> Open(int family, const std::string& interface) {
  Fd fd(socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.ok()) return absl::ErrnoToStatus(errno, "opening a UDP socket");
  // What arrives is dropped before it takes memory, and wakes nobody.
  sock_filter drop_all = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{.len = 1, .filter = &drop_all};
  (void)setsockopt(fd.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
  const int least = 1;  // the kernel makes it its own least
  (void)setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &least, sizeof least);
  if (setsockopt(fd.get(), SOL_SOCKET, SO_BINDTODEVICE, interface.c_str(),
                 static_cast<socklen_t>(interface.size())) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("a UDP socket on \"", interface, "\""));
  }
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

std::set<std::string> UsersOfPacketSockets() {
  constexpr size_t kUser = 7;
  std::set<std::string> users;
  for (const auto& row : Table("packet")) {
    if (row.size() > kUser) users.insert(row[kUser]);
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
std::optional<std::string> UserWithoutRight() {
  const std::set<std::string> with_right = UsersOfPacketSockets();
  for (const std::string& user : UsersOfRocePort()) {
    if (user != "0" && user != absl::StrCat(geteuid()) && !with_right.contains(user)) return user;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RoceUdpPort>> RoceUdpPort::Hold(const std::string& interface,
                                                               uint32_t interface_index) {
  std::unique_ptr<RoceUdpPort> port(
      new RoceUdpPort(absl::StrCat(interface_index, "/udp/", wire::kRocePort)));
  for (const int family : {AF_INET, AF_INET6}) {
    absl::StatusOr<Fd> fd = Open(family, interface);
    if (!fd.ok() && family == AF_INET6) continue;
    if (!fd.ok()) return fd.status();
    port->sockets_.push_back({.fd = *std::move(fd), .family = family});
  }
  std::string holder;
  for (int look = 0; look < kLooks; ++look) {
    if (look > 0) std::this_thread::sleep_for(kBetweenLooks);
    const int error = port->Bind();
    if (error == 0) return port;
    if (error != EADDRINUSE) {
      return absl::ErrnoToStatus(
          error, absl::StrCat("interface \"", interface, "\": UDP port ", wire::kRocePort));
    }
    const std::optional<std::string> stranger = UserWithoutRight();
    if (!stranger && NameClaim::IsTaken(port->claim_name_)) return port;
    holder = stranger ? absl::StrCat(" is taken by a program of user ", *stranger,
                                     ". Pollux shares the port only with users that have packet "
                                     "sockets. End that program (")
                      : " is taken: by Linux's soft-RoCE (`rdma link`; `modprobe -r rdma_rxe`) or "
                        "by another program that speaks RoCE there (";
  }
  return absl::AlreadyExistsError(
      absl::StrCat("interface \"", interface, "\": UDP port ", wire::kRocePort, holder,
                   "`ss -ulpn sport = ", wire::kRocePort, "` names it)"));
}

void RoceUdpPort::TakeOver() {
  if (!claim_) Bind();
}

bool RoceUdpPort::is_bound() const {
  return std::ranges::all_of(sockets_, [](const Socket& one) { return one.is_bound; });
}

int RoceUdpPort::Bind() {
  for (Socket& one : sockets_) {
    if (one.is_bound) continue;
    if (const int error = BindToRocePort(one.fd, one.family); error != 0) return error;
    one.is_bound = true;
  }
  // The process that had it may not have released it yet.
  absl::StatusOr<NameClaim> claim = NameClaim::Take(claim_name_);
  if (claim.ok()) claim_ = *std::move(claim);
  return 0;
}

}  // namespace pollux::kernel
