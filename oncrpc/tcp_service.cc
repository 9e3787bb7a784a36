#include "oncrpc/tcp_service.h"

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "oncrpc/bound_socket.h"
#include "oncrpc/record_mark.h"
#include "oncrpc/socket_address.h"
#include "stack/base/memory_reserve.h"

namespace pollux::oncrpc {
namespace {

constexpr int kBacklog = 16;
// How often the idle are looked for, and how long the listener rests when accept4() has failed.
constexpr int kTickMs = 1000;

uint64_t NowMs() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

absl::StatusOr<Fd> ListenAt(uint16_t port) {
  absl::StatusOr<Fd> socket = BindEverywhere(SOCK_STREAM, port);
  if (socket.ok() && listen(socket->get(), kBacklog) != 0) {
    if (errno == EADDRINUSE) {
      return absl::AlreadyExistsError(absl::StrCat("TCP port ", port, " is taken"));
    }
    return absl::ErrnoToStatus(errno, absl::StrCat("TCP port ", port));
  }
  return socket;
}

Gid AddressOf(const sockaddr_storage& address, socklen_t size) {
  return FromSockaddr(reinterpret_cast<const sockaddr*>(&address), size).address;
}

bool IsOutOfResources() {
  return errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
}

bool WouldBlock() { return errno == EAGAIN || errno == EINTR; }

}  // namespace

// What is ready to go, and what wakes the thread that sends it.
struct TcpService::Outbox {
  struct Ready {
    uint64_t connection = 0;
    std::vector<uint8_t> message;  // empty: none will come
  };

  void Post(uint64_t connection, std::vector<uint8_t> message) {
    const std::lock_guard lock(mutex);
    ready.push_back({connection, std::move(message)});
    eventfd_write(wake.get(), 1);
  }

  std::mutex mutex;
  std::vector<Ready> ready;
  Fd wake;  // an eventfd
};

TcpService::TcpService(size_t max_record, RecordHandler handler)
    : max_record_(max_record), handler_(std::move(handler)), outbox_(std::make_shared<Outbox>()) {}

absl::StatusOr<std::unique_ptr<TcpService>> TcpService::Listen(uint16_t port, size_t max_record,
                                                               RecordHandler handler) {
  std::unique_ptr<TcpService> server(new TcpService(max_record, std::move(handler)));
  absl::StatusOr<Fd> listener = ListenAt(port);
  if (!listener.ok()) return listener.status();
  server->listener_ = *std::move(listener);
  server->port_ = PortOf(server->listener_);
  server->end_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  server->outbox_->wake = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!server->end_.ok() || !server->outbox_->wake.ok()) {
    return absl::ErrnoToStatus(errno, "eventfd");
  }
  server->thread_ = std::thread([raw = server.get()] { raw->Serve(); });
  return server;
}

TcpService::~TcpService() {
  if (!thread_.joinable()) return;
  eventfd_write(end_.get(), 1);
  thread_.join();
}

void TcpService::Serve() {
  constexpr size_t kOthers = 3;
  while (true) {
    // poll() ignores -1.
    const int listener = NowMs() < accept_at_ms_ ? -1 : listener_.get();
    std::vector<pollfd> watched = {
        {end_.get(), POLLIN, 0}, {outbox_->wake.get(), POLLIN, 0}, {listener, POLLIN, 0}};
    for (const auto& connection : connections_) {
      const short reads = connection->MayRead() ? POLLIN : 0;
      const short wants = connection->out.empty() ? reads : POLLOUT;
      watched.push_back({connection->socket.get(), wants, 0});
    }
    poll(watched.data(), watched.size(), kTickMs);
    if ((watched[0].revents & POLLIN) != 0) return;
    const uint64_t now_ms = NowMs();
    for (size_t i = 0; i < connections_.size(); ++i) {
      if (!Attend(*connections_[i], watched[i + kOthers].revents, now_ms)) connections_[i].reset();
    }
    std::erase(connections_, nullptr);
    TakeReplies(now_ms);
    if ((watched[2].revents & POLLIN) != 0) Accept(now_ms);
  }
}

bool TcpService::Attend(Connection& connection, short events, uint64_t now_ms) {
  const bool idle = connection.unanswered == 0 && now_ms - connection.heard_ms >= kIdleMs;
  // An end that is waited for, and cannot come any more, is seen here.
  if (idle || (events & (POLLERR | POLLHUP)) != 0) return false;
  if (events == 0) return true;
  return connection.out.empty() ? Read(connection, now_ms)
                                : Write(connection) && TakeRecords(connection);
}

void TcpService::TakeReplies(uint64_t now_ms) {
  eventfd_t count = 0;
  eventfd_read(outbox_->wake.get(), &count);
  std::vector<Outbox::Ready> ready;
  {
    const std::lock_guard lock(outbox_->mutex);
    ready.swap(outbox_->ready);
  }
  for (const Outbox::Ready& one : ready) {
    const auto found = std::ranges::find(connections_, one.connection,
                                         [](const auto& connection) { return connection->number; });
    if (found == connections_.end()) continue;
    Connection& connection = **found;
    --connection.unanswered;
    *connection.posted -= one.message.size();
    connection.heard_ms = now_ms;
    const auto mark = EmitRecordMark({.fragment_bytes = one.message.size()});
    connection.out.insert(connection.out.end(), mark.begin(), mark.end());
    connection.out.insert(connection.out.end(), one.message.begin(), one.message.end());
    if (one.message.empty() || !Write(connection) || !TakeRecords(connection)) {
      connections_.erase(found);
    }
  }
}

void TcpService::MakeRoom() {
  std::map<Gid, size_t> counts;
  for (const auto& connection : connections_) ++counts[connection->route.client];
  connections_.erase(std::ranges::min_element(connections_, {}, [&](const auto& connection) {
    return std::pair(kMaxConnections - counts[connection->route.client], connection->heard_ms);
  }));
}

void TcpService::Accept(uint64_t now_ms) {
  sockaddr_storage peer = {};
  socklen_t size = sizeof(peer);
  Fd socket(accept4(listener_.get(), reinterpret_cast<sockaddr*>(&peer), &size,
                    SOCK_NONBLOCK | SOCK_CLOEXEC));
  // The connection still waits, and poll() would return at once.
  if (!socket.ok() && IsOutOfResources()) accept_at_ms_ = now_ms + kTickMs;
  if (!socket.ok() || !MemoryReserve::IsWhole()) return;
  if (connections_.size() == kMaxConnections) MakeRoom();
  auto connection = std::make_unique<Connection>();
  connection->number = ++last_number_;
  connection->route.client = AddressOf(peer, size);
  size = sizeof(peer);
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&peer), &size) != 0) return;
  connection->route.server = AddressOf(peer, size);
  connection->socket = std::move(socket);
  connection->heard_ms = now_ms;
  connections_.push_back(std::move(connection));
}

bool TcpService::Read(Connection& connection, uint64_t now_ms) {
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

bool TcpService::TakeRecords(Connection& connection) {
  while (connection.MayRead()) {
    std::vector<uint8_t> record;
    size_t at = 0;
    bool whole = false;
    while (!whole && connection.in.size() - at >= kRecordMarkBytes) {
      const RecordMark mark = ParseRecordMark(connection.in.data() + at);
      const size_t size = mark.fragment_bytes;
      if (size > max_record_ - record.size()) return false;
      if (connection.in.size() - at - kRecordMarkBytes < size) break;
      at += kRecordMarkBytes;
      record.insert(record.end(), connection.in.begin() + static_cast<ptrdiff_t>(at),
                    connection.in.begin() + static_cast<ptrdiff_t>(at + size));
      at += size;
      whole = mark.last;
    }
    if (!whole) return connection.in.size() <= 2 * (max_record_ + kRecordMarkBytes);
    connection.in.erase(connection.in.begin(), connection.in.begin() + static_cast<ptrdiff_t>(at));
    ++connection.unanswered;
    ReplySender reply([outbox = outbox_, posted = connection.posted,
                       number = connection.number](std::vector<uint8_t> message) {
      *posted += message.size();
      outbox->Post(number, std::move(message));
    });
    handler_(std::move(record), connection.route, std::move(reply));
  }
  return true;
}

bool TcpService::Write(Connection& connection) {
  const ssize_t size = send(connection.socket.get(), connection.out.data() + connection.sent,
                            connection.out.size() - connection.sent, MSG_NOSIGNAL);
  if (size < 0) return WouldBlock();
  connection.sent += static_cast<size_t>(size);
  if (connection.sent == connection.out.size()) {
    // clear() would keep the memory of large replies.
    std::vector<uint8_t>().swap(connection.out);
    connection.sent = 0;
  }
  return true;
}

}  // namespace pollux::oncrpc
