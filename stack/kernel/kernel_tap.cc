#include "stack/kernel/kernel_tap.h"

#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/if_tun.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <rte_ip.h>
#include <rte_mbuf.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "stack/base/byte_order.h"
#include "stack/io/port/netlink.h"
#include "stack/wire/ethernet.h"

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

// Completes a TCP or UDP checksum field that contains only `pseudo_header`. `sum` computes the
// packet's checksum; the field must be 0 when it is called.
template <class Sum>
void CompleteField(uint8_t protocol, uint8_t* packet, size_t length, uint16_t pseudo_header,
                   const Sum& sum) {
  const bool tcp = protocol == IPPROTO_TCP;
  if ((!tcp && protocol != IPPROTO_UDP) || length < (tcp ? 20u : 8u)) return;
  uint8_t* const field = packet + (tcp ? 16 : 6);
  uint16_t value;
  std::memcpy(&value, field, sizeof value);
  if (value != pseudo_header) return;
  std::memset(field, 0, sizeof value);
  value = sum(packet);
  std::memcpy(field, &value, sizeof value);
}

// A kernel on this host that leaves TCP's and UDP's checksums to the NIC (at the other end of a
// veth, for example) writes only the sum of the pseudo-header. The tap's kernel would drop such
// packets. A valid checksum of the same value stays as it is.
void CompleteChecksum(uint8_t* frame, size_t length) {
  constexpr size_t kTagged = wire::kEthernetBytes + wire::kVlanTagBytes;
  if (length < kTagged) return;
  size_t at = wire::kEthernetBytes;
  if (LoadBe16(frame + at - 2) == wire::kEtherTypeVlan) at = kTagged;
  const uint16_t type = LoadBe16(frame + at - 2);
  uint8_t* const packet = frame + at;
  length -= at;
  if (type == wire::kEtherTypeIpv4 && length >= sizeof(rte_ipv4_hdr)) {
    const auto* const ip = reinterpret_cast<const rte_ipv4_hdr*>(packet);
    const size_t header = rte_ipv4_hdr_len(ip), total = LoadBe16(packet + 2);
    constexpr uint16_t kFragment = RTE_IPV4_HDR_MF_FLAG | RTE_IPV4_HDR_OFFSET_MASK;
    if (header < sizeof(rte_ipv4_hdr) || header > total || total > length ||
        (rte_be_to_cpu_16(ip->fragment_offset) & kFragment) != 0) {
      return;
    }
    CompleteField(ip->next_proto_id, packet + header, total - header, rte_ipv4_phdr_cksum(ip, 0),
                  [ip](const void* inner) { return rte_ipv4_udptcp_cksum(ip, inner); });
  } else if (type == wire::kEtherTypeIpv6 && length >= sizeof(rte_ipv6_hdr)) {
    const auto* const ip = reinterpret_cast<const rte_ipv6_hdr*>(packet);
    const size_t payload = rte_be_to_cpu_16(ip->payload_len);
    if (payload > length - sizeof *ip) return;
    CompleteField(ip->proto, packet + sizeof *ip, payload, rte_ipv6_phdr_cksum(ip, 0),
                  [ip](const void* inner) { return rte_ipv6_udptcp_cksum(ip, inner); });
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<KernelTap>> KernelTap::Make(const std::string& name,
                                                           const ip::InterfaceConfig& config) {
  if (name.empty() || name.size() >= IFNAMSIZ) {
    return absl::InvalidArgumentError(absl::StrCat(
        "interface \"", name, "\": an interface name has 1 to ", IFNAMSIZ - 1, " characters"));
  }
  for (const InterfaceAddress& own : config.addresses) {
    if (own.vlan == kNoVlan) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "address ", FormatInterfaceAddress(own),
        ": a kernel path does not support addresses in a VLAN; leave out the VLAN or the kernel "
        "path"));
  }
  if (if_nametoindex(name.c_str()) != 0) {
    return absl::AlreadyExistsError(
        absl::StrCat("interface \"", name, "\": that interface exists already; give another name"));
  }
  const int fd = open(kTunDevice, O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("interface \"", name, "\": ", kTunDevice,
                                                   " (run as root or with CAP_NET_ADMIN)"));
  }
  std::unique_ptr<KernelTap> tap(new KernelTap(name, fd));
  ifreq request{};
  std::strncpy(request.ifr_name, name.c_str(), IFNAMSIZ - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (ioctl(fd, TUNSETIFF, &request) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("interface \"", name, "\": making the tap"));
  }
  if (absl::Status status = tap->Configure(config); !status.ok()) return status;
  return tap;
}

KernelTap::~KernelTap() { close(fd_); }

absl::Status KernelTap::CheckInterface() const {
  pollfd tap{.fd = fd_, .events = 0, .revents = 0};
  if (poll(&tap, 1, 0) <= 0 || (tap.revents & POLLERR) == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("interface \"", name_, "\" is gone"));
}

void KernelTap::SetCarrier(bool up) const {
  int carrier = up ? 1 : 0;
  (void)ioctl(fd_, TUNSETCARRIER, &carrier);
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
  absl::Status status = Do(*socket, link, absl::StrCat("interface \"", name_, "\""));
  for (const InterfaceAddress& own : config.addresses) {
    if (status.ok()) status = AddAddress(*socket, index, own, name_);
  }
  for (const Gid& gateway : config.gateways) {
    if (status.ok()) status = AddDefaultRoute(*socket, index, gateway, name_);
  }
  return status;
}

uint16_t WriteToTap(int tap, rte_mbuf** frames, uint16_t count) {
  uint16_t taken = 0;
  for (uint16_t i = 0; i < count; ++i) {
    if (frames[i]->nb_segs != 1) continue;
    auto* const bytes = rte_pktmbuf_mtod(frames[i], uint8_t*);
    CompleteChecksum(bytes, frames[i]->data_len);
    if (write(tap, bytes, frames[i]->data_len) == frames[i]->data_len) ++taken;
  }
  rte_pktmbuf_free_bulk(frames, count);
  return taken;
}

uint16_t ReadFromTap(int tap, rte_mempool* pool, uint16_t frame_bytes, rte_mbuf** frames,
                     uint16_t capacity, uint64_t* too_long) {
  uint16_t count = 0;
  for (uint16_t i = 0; i < capacity; ++i) {
    rte_mbuf* const frame = rte_pktmbuf_alloc(pool);
    if (frame == nullptr) return count;
    // readv() truncates a frame that is too long, without an error: a byte more of room shows it.
    uint8_t rest;
    iovec room[] = {{rte_pktmbuf_mtod(frame, void*), frame_bytes}, {&rest, sizeof rest}};
    const ssize_t bytes = readv(tap, room, std::size(room));
    if (bytes > 0 && bytes <= frame_bytes) {
      rte_pktmbuf_append(frame, static_cast<uint16_t>(bytes));
      frames[count++] = frame;
      continue;
    }
    rte_pktmbuf_free(frame);
    if (bytes <= 0) return count;
    ++*too_long;
  }
  return count;
}

}  // namespace pollux::kernel
