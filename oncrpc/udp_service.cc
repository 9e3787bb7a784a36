#include "oncrpc/udp_service.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "oncrpc/bound_socket.h"
#include "oncrpc/socket_address.h"
#include "stack/base/byte_order.h"

namespace pollux::oncrpc {
namespace {

// A reply leaves from the address that was asked: its client waits for no other.
bool AskForDestinations(const Fd& socket) {
  const int on = 1;
  int family = 0;
  socklen_t size = sizeof family;
  getsockopt(socket.get(), SOL_SOCKET, SO_DOMAIN, &family, &size);
  return family == AF_INET6
             ? setsockopt(socket.get(), IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on) == 0
             : setsockopt(socket.get(), IPPROTO_IP, IP_PKTINFO, &on, sizeof on) == 0;
}

Gid DestinationIn(const cmsghdr& control) {
  Gid address;
  if (control.cmsg_level == IPPROTO_IPV6 && control.cmsg_type == IPV6_PKTINFO) {
    in6_pktinfo info;
    std::memcpy(&info, CMSG_DATA(&control), sizeof info);
    std::memcpy(address.raw.data(), &info.ipi6_addr, address.raw.size());
  } else if (control.cmsg_level == IPPROTO_IP && control.cmsg_type == IP_PKTINFO) {
    in_pktinfo info;
    std::memcpy(&info, CMSG_DATA(&control), sizeof info);
    address = Gid::FromIpv4(ntohl(info.ipi_spec_dst.s_addr));
  }
  return address;
}

// The source address of a reply is kept, but not its interface: routes may lead elsewhere. Only a
// link-local address is of no use on another one.
void LetRoutesChooseTheInterface(cmsghdr* control) {
  if (control->cmsg_level == IPPROTO_IPV6 && control->cmsg_type == IPV6_PKTINFO) {
    in6_pktinfo info;
    std::memcpy(&info, CMSG_DATA(control), sizeof info);
    if (!IN6_IS_ADDR_LINKLOCAL(&info.ipi6_addr)) info.ipi6_ifindex = 0;
    std::memcpy(CMSG_DATA(control), &info, sizeof info);
  } else if (control->cmsg_level == IPPROTO_IP && control->cmsg_type == IP_PKTINFO) {
    in_pktinfo info;
    std::memcpy(&info, CMSG_DATA(control), sizeof info);
    info.ipi_ifindex = 0;
    std::memcpy(CMSG_DATA(control), &info, sizeof info);
  }
}

uint32_t XidOf(const std::vector<uint8_t>& record) {
  return record.size() < sizeof(uint32_t) ? 0 : LoadBe32(record.data());
}

}  // namespace

bool UdpService::Socket::Begin(const Asked& asked) {
  const std::lock_guard lock(mutex);
  return unanswered.size() < kMaxUnanswered && unanswered.insert(asked).second;
}

void UdpService::Socket::End(const Asked& asked) {
  const std::lock_guard lock(mutex);
  unanswered.erase(asked);
}

struct UdpService::Way {
  sockaddr_storage peer = {};
  // As the kernel gave it, which it takes back as the source of what is sent.
  alignas(cmsghdr) std::array<uint8_t, CMSG_SPACE(sizeof(in6_pktinfo))> control = {};
  msghdr header = {};

  void Point(iovec* bytes) {
    header.msg_name = &peer;
    header.msg_control = control.data();
    header.msg_iov = bytes;
    header.msg_iovlen = 1;
  }
};

UdpService::UdpService(size_t max_record, RecordHandler handler)
    : max_record_(max_record), handler_(std::move(handler)), socket_(std::make_shared<Socket>()) {}

absl::StatusOr<std::unique_ptr<UdpService>> UdpService::Listen(uint16_t port, size_t max_record,
                                                               RecordHandler handler) {
  std::unique_ptr<UdpService> server(new UdpService(max_record, std::move(handler)));
  absl::StatusOr<Fd> socket = BindEverywhere(SOCK_DGRAM, port);
  if (!socket.ok()) return socket.status();
  server->end_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!AskForDestinations(*socket) || !server->end_.ok()) {
    return absl::ErrnoToStatus(errno, "a UDP service");
  }
  server->port_ = PortOf(*socket);
  server->socket_->fd = *std::move(socket);
  server->thread_ = std::thread([raw = server.get()] { raw->Serve(); });
  return server;
}

UdpService::~UdpService() {
  if (!thread_.joinable()) return;
  eventfd_write(end_.get(), 1);
  thread_.join();
}

void UdpService::Serve() {
  std::array<pollfd, 2> watched = {{{end_.get(), POLLIN, 0}, {socket_->fd.get(), POLLIN, 0}}};
  while (true) {
    poll(watched.data(), watched.size(), /*timeout=*/-1);
    if ((watched[0].revents & POLLIN) != 0) return;
    Receive();
  }
}

void UdpService::Receive() {
  Way way;
  std::vector<uint8_t> record(max_record_);
  iovec bytes = {.iov_base = record.data(), .iov_len = record.size()};
  way.Point(&bytes);
  way.header.msg_namelen = sizeof way.peer;
  way.header.msg_controllen = way.control.size();
  const ssize_t size = recvmsg(socket_->fd.get(), &way.header, 0);
  if (size < 0) return;
  record.resize(static_cast<size_t>(size));
  const SocketAddress peer =
      FromSockaddr(reinterpret_cast<const sockaddr*>(&way.peer), way.header.msg_namelen);
  const Asked asked(peer.address, peer.port, XidOf(record));
  if ((way.header.msg_flags & MSG_TRUNC) != 0 || !socket_->Begin(asked)) {
    ++dropped_;
    return;
  }
  CallRoute route{.client = peer.address, .server = {}, .max_reply = kMaxReply, .connected = false};
  if (cmsghdr* control = CMSG_FIRSTHDR(&way.header); control != nullptr) {
    route.server = DestinationIn(*control);
    LetRoutesChooseTheInterface(control);
  }
  handler_(std::move(record), route,
           ReplySender([socket = socket_, asked, way](std::vector<uint8_t> message) mutable {
             socket->End(asked);
             if (!message.empty()) Send(*socket, way, std::move(message));
           }));
}

void UdpService::Send(const Socket& socket, Way& way, std::vector<uint8_t> message) {
  iovec bytes = {.iov_base = message.data(), .iov_len = message.size()};
  way.Point(&bytes);
  way.header.msg_flags = 0;
  // There is nothing to be done about one that does not go.
  sendmsg(socket.fd.get(), &way.header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace pollux::oncrpc
