#include "stack/io/port/netlink.h"

#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace pollux::io {

std::span<const uint8_t> AddressBytes(const Gid& gid) {
  constexpr size_t kIpv4Bytes = 4;
  return gid.IsIpv4() ? std::span(gid.raw).last<kIpv4Bytes>() : std::span<const uint8_t>(gid.raw);
}

uint8_t FamilyOf(const Gid& gid) { return gid.IsIpv4() ? AF_INET : AF_INET6; }

NetlinkRequest::NetlinkRequest(uint16_t type, uint16_t flags) {
  *header() = {.nlmsg_len = NLMSG_HDRLEN,
               .nlmsg_type = type,
               .nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags),
               .nlmsg_seq = 0,
               .nlmsg_pid = 0};
}

void NetlinkRequest::Append(const void* data, size_t bytes) {
  const size_t at = header()->nlmsg_len;
  if (at + NLMSG_ALIGN(bytes) > kMaxBytes) return;
  std::memcpy(bytes_ + at, data, bytes);
  header()->nlmsg_len += static_cast<uint32_t>(NLMSG_ALIGN(bytes));
}

NetlinkRequest& NetlinkRequest::Attribute(uint16_t type, const void* data, size_t bytes) {
  const rtattr attribute{.rta_len = static_cast<uint16_t>(RTA_LENGTH(bytes)), .rta_type = type};
  Append(&attribute, sizeof attribute);
  Append(data, bytes);
  return *this;
}

void ForEachAttribute(const void* first, size_t bytes,
                      absl::FunctionRef<void(uint16_t, std::span<const uint8_t>)> take) {
  const auto* p = static_cast<const uint8_t*>(first);
  while (bytes >= sizeof(rtattr)) {
    rtattr attribute;
    std::memcpy(&attribute, p, sizeof attribute);
    if (attribute.rta_len < sizeof attribute || attribute.rta_len > bytes) return;
    take(attribute.rta_type & NLA_TYPE_MASK,
         {p + RTA_LENGTH(0), static_cast<size_t>(attribute.rta_len - RTA_LENGTH(0))});
    const size_t step = RTA_ALIGN(attribute.rta_len);
    if (step >= bytes) return;
    p += step;
    bytes -= step;
  }
}

absl::StatusOr<NetlinkSocket> NetlinkSocket::Open(uint32_t groups) {
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (fd < 0) return absl::ErrnoToStatus(errno, "opening a netlink socket");
  NetlinkSocket made(fd);
  sockaddr_nl address{.nl_family = AF_NETLINK, .nl_pad = 0, .nl_pid = 0, .nl_groups = groups};
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return absl::ErrnoToStatus(errno, "subscribing to netlink's news");
  }
  const timeval guard{.tv_sec = kAnswerMs / 1000, .tv_usec = kAnswerMs % 1000 * 1000};
  (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &guard, sizeof guard);
  return made;
}

NetlinkSocket::~NetlinkSocket() {
  if (fd_ >= 0) close(fd_);
}

bool NetlinkSocket::HandOn(size_t bytes, Take take, absl::Status* status) {
  auto left = static_cast<int>(bytes);
  for (auto* message = reinterpret_cast<nlmsghdr*>(buffer_.get()); NLMSG_OK(message, left);
       message = NLMSG_NEXT(message, left)) {
    if (status != nullptr && message->nlmsg_seq != sequence_) continue;  // of an earlier question
    if (message->nlmsg_type == NLMSG_DONE) return true;
    if (message->nlmsg_type == NLMSG_ERROR) {
      const auto* error = static_cast<const nlmsgerr*>(NLMSG_DATA(message));
      if (status != nullptr && error->error != 0) {
        *status = absl::ErrnoToStatus(-error->error, "netlink");
      }
      return true;
    }
    take(*message);
    if (status != nullptr && (message->nlmsg_flags & NLM_F_MULTI) == 0) return true;
  }
  return false;
}

absl::Status NetlinkSocket::Ask(NetlinkRequest& request, Take take) {
  request.header()->nlmsg_seq = ++sequence_;
  if (send(fd_, request.header(), request.header()->nlmsg_len, 0) < 0) {
    return absl::ErrnoToStatus(errno, "asking netlink");
  }
  absl::Status status;
  for (;;) {
    const ssize_t bytes = recv(fd_, buffer_.get(), kBufferBytes, 0);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return absl::ErrnoToStatus(errno, "netlink's answer");
    if (HandOn(static_cast<size_t>(bytes), take, &status)) return status;
  }
}

bool NetlinkSocket::Drain(Take take) {
  bool complete = true;
  for (;;) {
    const ssize_t bytes = recv(fd_, buffer_.get(), kBufferBytes, MSG_DONTWAIT);
    if (bytes >= 0) {
      HandOn(static_cast<size_t>(bytes), take, nullptr);
    } else if (errno == ENOBUFS) {
      complete = false;
    } else if (errno != EINTR) {
      return complete;
    }
  }
}

}  // namespace pollux::io
