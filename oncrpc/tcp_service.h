// An RPC service over the kernel's TCP, for programs with few calls: one thread receives and sends
// records. Replies are sent in the order in which they are ready. Source: RFC 5531 section 11.
#ifndef POLLUX_ONCRPC_TCP_SERVICE_H_
#define POLLUX_ONCRPC_TCP_SERVICE_H_

#include <poll.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "oncrpc/record_handler.h"
#include "stack/base/fd.h"

namespace pollux::oncrpc {

class TcpService {
 public:
  static constexpr size_t kMaxConnections = 256;
  // Milliseconds after which a connection is closed that sends no record and waits for no reply. At
  // kMaxConnections, a new connection replaces one of the address with the most connections: the
  // one that was idle longest.
  static constexpr uint64_t kIdleMs = 60'000;
  // The most unanswered calls of one connection; at this limit nothing more is read from it.
  static constexpr uint32_t kMaxUnanswered = 16;
  // While replies of this many bytes wait to be sent on a connection, nothing more is read from it.
  static constexpr size_t kMaxUnsentBytes = 1 << 20;

  // Listens at every IPv4 and IPv6 address of the host; port 0 stands for any free port. Starts a
  // thread that calls `handler` for each record; the handler must not block. A record of more than
  // `max_record` bytes, all fragments together, closes the connection. While memory is short
  // (MemoryReserve), new connections are closed. AlreadyExists if the port is in use.
  static absl::StatusOr<std::unique_ptr<TcpService>> Listen(uint16_t port, size_t max_record,
                                                            RecordHandler handler);
  // Stops the thread and waits for it. Later replies are dropped.
  ~TcpService();
  uint16_t port() const { return port_; }

 private:
  struct Connection {
    uint64_t number = 0;
    Fd socket;
    CallRoute route;
    uint64_t heard_ms = 0;
    uint32_t unanswered = 0;
    std::vector<uint8_t> in;   // fragments as received, with their record marks
    std::vector<uint8_t> out;  // replies; bytes from `sent` on are not yet sent
    size_t sent = 0;
    // Bytes of replies in the outbox, which any thread adds.
    std::shared_ptr<std::atomic<size_t>> posted = std::make_shared<std::atomic<size_t>>(0);

    bool MayRead() const {
      return out.empty() && unanswered < kMaxUnanswered && *posted < kMaxUnsentBytes;
    }
  };

  struct Outbox;

  TcpService(size_t max_record, RecordHandler handler);
  void Serve();
  // Returns whether the connection stays open.
  bool Attend(Connection& connection, short events, uint64_t now_ms);
  void TakeReplies(uint64_t now_ms);
  void Accept(uint64_t now_ms);
  void MakeRoom();
  // Returns false if the connection must be closed.
  bool Read(Connection& connection, uint64_t now_ms);
  bool TakeRecords(Connection& connection);
  bool Write(Connection& connection);

  size_t max_record_;
  RecordHandler handler_;
  std::shared_ptr<Outbox> outbox_;
  uint64_t last_number_ = 0;
  uint16_t port_ = 0;
  Fd listener_;
  uint64_t accept_at_ms_ = 0;  // until then the listener is not watched
  Fd end_;                     // an eventfd
  std::vector<std::unique_ptr<Connection>> connections_;
  std::thread thread_;
};

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_TCP_SERVICE_H_
