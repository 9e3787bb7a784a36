#include "nfs/server/record_server.h"

#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "stack/base/byte_order.h"

namespace pollux::nfs {
namespace {

constexpr size_t kMarkBytes = 4;
constexpr uint32_t kLastFragment = 1u << 31;
constexpr int kBacklog = 16;
constexpr int kTickMs = 1000;  // how often the idle are looked for

uint64_t NowMs() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

// Both IP versions by one socket, or IPv4 alone where the host has no IPv6.
absl::StatusOr<Fd> ListenAt(uint16_t port) {
  Fd fd(socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1, off = 0;
  int bound = -1;
  if (fd.ok()) {
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_in6 any = {};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(port);
    bound = bind(fd.get(), reinterpret_cast<sockaddr*>(&any), sizeof(any));
  }
  if (!fd.ok() || (bound != 0 && errno == EADDRNOTAVAIL)) {
    fd = Fd(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_in any = {};
    any.sin_family = AF_INET;
    any.sin_port = htons(port);
    bound = bind(fd.get(), reinterpret_cast<sockaddr*>(&any), sizeof(any));
  }
  if (bound != 0 || listen(fd.get(), kBacklog) != 0) {
    if (errno == EADDRINUSE) {
      return absl::AlreadyExistsError(absl::StrCat("TCP port ", port, " is taken"));
    }
    return absl::ErrnoToStatus(errno, absl::StrCat("TCP port ", port));
  }
  return fd;
}

uint16_t PortOf(const Fd& socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  // Of both families at the same place.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

Gid AddressOf(const sockaddr_storage& peer) {
  if (peer.ss_family == AF_INET) {
    const auto* ipv4 = reinterpret_cast<const sockaddr_in*>(&peer);
    return Gid::FromIpv4(ntohl(ipv4->sin_addr.s_addr));
  }
  Gid gid;
  const auto* ipv6 = reinterpret_cast<const sockaddr_in6*>(&peer);
  std::memcpy(gid.raw.data(), &ipv6->sin6_addr, gid.raw.size());
  return gid;
}

bool WouldBlock() { return errno == EAGAIN || errno == EINTR; }

}  // namespace

RecordServer::RecordServer(size_t max_record, size_t max_reply, Answer answer)
    : max_record_(max_record), reply_(kMarkBytes + max_reply), answer_(std::move(answer)) {}

absl::StatusOr<std::unique_ptr<RecordServer>> RecordServer::Listen(uint16_t port, size_t max_record,
                                                                   size_t max_reply,
                                                                   Answer answer) {
  std::unique_ptr<RecordServer> server(new RecordServer(max_record, max_reply, std::move(answer)));
  absl::StatusOr<Fd> listener = ListenAt(port);
  if (!listener.ok()) return listener.status();
  server->listener_ = *std::move(listener);
  server->port_ = PortOf(server->listener_);
  server->end_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!server->end_.ok()) return absl::ErrnoToStatus(errno, "eventfd");
  server->thread_ = std::thread([raw = server.get()] { raw->Serve(); });
  return server;
}

RecordServer::~RecordServer() {
  if (!thread_.joinable()) return;
  eventfd_write(end_.get(), 1);
  thread_.join();
}

void RecordServer::Serve() {
  while (true) {
    std::vector<pollfd> watched = {{end_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const auto& connection : connections_) {
      const short wants = connection->out.empty() ? POLLIN : POLLOUT;
      watched.push_back({connection->socket.get(), wants, 0});
    }
    poll(watched.data(), watched.size(), kTickMs);
    if ((watched[0].revents & POLLIN) != 0) return;
    const uint64_t now_ms = NowMs();
    for (size_t i = 0; i < connections_.size(); ++i) {
      Connection& connection = *connections_[i];
      bool stays = now_ms - connection.heard_ms < kIdleMs;
      if (stays && watched[i + 2].revents != 0) {
        stays = connection.out.empty() ? Read(connection, now_ms)
                                       : Write(connection) && TakeRecords(connection);
      }
      if (!stays) connections_[i].reset();
    }
    std::erase(connections_, nullptr);
    if ((watched[1].revents & POLLIN) != 0) Accept(now_ms);
  }
}

void RecordServer::Accept(uint64_t now_ms) {
  sockaddr_storage peer = {};
  socklen_t size = sizeof(peer);
  Fd socket(accept4(listener_.get(), reinterpret_cast<sockaddr*>(&peer), &size,
                    SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket.ok()) return;
  if (connections_.size() == kMaxConnections) {
    connections_.erase(std::ranges::min_element(
        connections_, {}, [](const auto& connection) { return connection->heard_ms; }));
  }
  auto connection = std::make_unique<Connection>();
  connection->socket = std::move(socket);
  connection->client = AddressOf(peer);
  connection->heard_ms = now_ms;
  connections_.push_back(std::move(connection));
}

bool RecordServer::Read(Connection& connection, uint64_t now_ms) {
  std::array<uint8_t, 4096> part;
  const ssize_t size = recv(connection.socket.get(), part.data(), part.size(), 0);
  if (size < 0) return WouldBlock();
  if (size == 0) return false;
  connection.in.insert(connection.in.end(), part.begin(), part.begin() + size);
  const size_t before = connection.in.size();
  if (!TakeRecords(connection)) return false;
  // A byte now and then does not keep it open.
  if (connection.in.size() < before) connection.heard_ms = now_ms;
  return true;
}

// Records wait while a reply is on its way.
bool RecordServer::TakeRecords(Connection& connection) {
  while (connection.out.empty()) {
    record_.clear();
    size_t at = 0;
    bool whole = false;
    while (!whole && connection.in.size() - at >= kMarkBytes) {
      const uint32_t mark = LoadBe32(connection.in.data() + at);
      const size_t size = mark & ~kLastFragment;
      if (size > max_record_ - record_.size()) return false;
      if (connection.in.size() - at - kMarkBytes < size) break;
      at += kMarkBytes;
      record_.insert(record_.end(), connection.in.begin() + static_cast<ptrdiff_t>(at),
                     connection.in.begin() + static_cast<ptrdiff_t>(at + size));
      at += size;
      whole = (mark & kLastFragment) != 0;
    }
    if (!whole) return connection.in.size() <= 2 * (max_record_ + kMarkBytes);
    connection.in.erase(connection.in.begin(), connection.in.begin() + static_cast<ptrdiff_t>(at));
    const size_t size =
        answer_(record_, connection.client, absl::MakeSpan(reply_).subspan(kMarkBytes));
    if (size == 0) return false;
    StoreBe32(reply_.data(), kLastFragment | static_cast<uint32_t>(size));
    connection.out.assign(reply_.begin(),
                          reply_.begin() + static_cast<ptrdiff_t>(kMarkBytes + size));
    connection.sent = 0;
    if (!Write(connection)) return false;
  }
  return true;
}

bool RecordServer::Write(Connection& connection) {
  const ssize_t size = send(connection.socket.get(), connection.out.data() + connection.sent,
                            connection.out.size() - connection.sent, MSG_NOSIGNAL);
  if (size < 0) return WouldBlock();
  connection.sent += static_cast<size_t>(size);
  if (connection.sent == connection.out.size()) connection.out.clear();
  return true;
}

}  // namespace pollux::nfs
