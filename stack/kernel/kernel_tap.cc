#include "stack/kernel/kernel_tap.h"

#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/if_tun.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "stack/io/port/netlink.h"

namespace pollux::kernel {
namespace {

constexpr const char* kTunDevice = "/dev/net/tun";

absl::Status Do(io::NetlinkSocket& socket, io::NetlinkRequest& request, const std::string& what) {
  const absl::Status status = socket.Ask(request, [](const nlmsghdr&) {});
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(what, ": ", status.message()));
}

absl::Status AddAddress(io::NetlinkSocket& socket, uint32_t index, const InterfaceAddress& own,
                        const std::string& tap) {
  io::NetlinkRequest request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK);
  ifaddrmsg body{};
  body.ifa_family = io::FamilyOf(own.address);
  body.ifa_prefixlen = own.prefix_length;
  body.ifa_index = index;
  body.ifa_flags = IFA_F_NODAD;  // usable at once
  const std::span<const uint8_t> bytes = io::AddressBytes(own.address);
  request.With(body)
      .Attribute(IFA_LOCAL, bytes.data(), bytes.size())
      .Attribute(IFA_ADDRESS, bytes.data(), bytes.size());
  return Do(socket, request, absl::StrCat("address ", FormatInterfaceAddress(own), " on ", tap));
}

absl::Status AddDefaultRoute(io::NetlinkSocket& socket, uint32_t index, const Gid& gateway,
                             const std::string& tap) {
  io::NetlinkRequest request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK);
  rtmsg body{};
  body.rtm_family = io::FamilyOf(gateway);
  body.rtm_table = RT_TABLE_MAIN;
  body.rtm_protocol = RTPROT_BOOT;
  body.rtm_type = RTN_UNICAST;
  body.rtm_flags = RTNH_F_ONLINK;
  const std::span<const uint8_t> bytes = io::AddressBytes(gateway);
  request.With(body)
      .Attribute(RTA_GATEWAY, bytes.data(), bytes.size())
      .Attribute(RTA_OIF, &index, sizeof index);
  return Do(socket, request, absl::StrCat("gateway ", FormatAddress(gateway), " on ", tap));
}

// So that the link-local address is usable at once too. Not allowed or not there: it comes later.
void SkipDuplicateAddressDetection(const std::string& name) {
  const std::string path = absl::StrCat("/proc/sys/net/ipv6/conf/", name, "/accept_dad");
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  (void)!write(fd, "0", 1);
  close(fd);
}

}  // namespace

absl::StatusOr<std::unique_ptr<KernelTap>> KernelTap::Make(const std::string& name,
                                                           const ip::InterfaceConfig& config) {
  if (name.empty() || name.size() >= IFNAMSIZ) {
    return absl::InvalidArgumentError(absl::StrCat(
        "kernel path \"", name, "\": an interface name has 1 to ", IFNAMSIZ - 1, " characters"));
  }
  for (const InterfaceAddress& own : config.addresses) {
    if (own.vlan == kNoVlan) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("address ", FormatInterfaceAddress(own),
                     ": the kernel path does not support addresses in a VLAN"));
  }
  if (if_nametoindex(name.c_str()) != 0) {
    return absl::AlreadyExistsError(absl::StrCat(
        "kernel path \"", name, "\": that interface exists already; give another name"));
  }
  const int fd = open(kTunDevice, O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("kernel path \"", name, "\": ", kTunDevice,
                                                   " (run as root or with CAP_NET_ADMIN)"));
  }
  std::unique_ptr<KernelTap> tap(new KernelTap(name, fd));
  ifreq request{};
  std::strncpy(request.ifr_name, name.c_str(), IFNAMSIZ - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (ioctl(fd, TUNSETIFF, &request) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("kernel path \"", name, "\": making the tap"));
  }
  if (absl::Status status = tap->Configure(config); !status.ok()) return status;
  return tap;
}

KernelTap::~KernelTap() { close(fd_); }

absl::Status KernelTap::CheckInterface() const {
  pollfd tap{.fd = fd_, .events = 0, .revents = 0};
  if (poll(&tap, 1, 0) <= 0 || (tap.revents & POLLERR) == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("kernel path: interface \"", name_, "\" is gone"));
}

absl::Status KernelTap::Configure(const ip::InterfaceConfig& config) {
  const uint32_t index = if_nametoindex(name_.c_str());
  absl::StatusOr<io::NetlinkSocket> socket = io::NetlinkSocket::Open(0);
  if (!socket.ok()) return socket.status();
  SkipDuplicateAddressDetection(name_);
  io::NetlinkRequest link(RTM_NEWLINK, NLM_F_ACK);
  ifinfomsg body{};
  body.ifi_index = static_cast<int>(index);
  body.ifi_flags = body.ifi_change = IFF_UP;
  const uint32_t mtu = config.mtu;
  link.With(body)
      .Attribute(IFLA_ADDRESS, config.mac.data(), config.mac.size())
      .Attribute(IFLA_MTU, &mtu, sizeof mtu);
  absl::Status status = Do(*socket, link, absl::StrCat("kernel path \"", name_, "\""));
  for (const InterfaceAddress& own : config.addresses) {
    if (status.ok()) status = AddAddress(*socket, index, own, name_);
  }
  for (const Gid& gateway : config.gateways) {
    if (status.ok()) status = AddDefaultRoute(*socket, index, gateway, name_);
  }
  return status;
}

}  // namespace pollux::kernel
