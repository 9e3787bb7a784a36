// RPC over the kernel's TCP, for programs that are asked little: one thread, records in and out, in
// the order in which their replies are ready.
// Source: RFC 5531 section 11.
#ifndef POLLUX_ONCRPC_TCP_SERVICE_H_
#define POLLUX_ONCRPC_TCP_SERVICE_H_

#include <poll.h>

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
  // A connection that brings no record for so long, and waits for no reply, is closed; when there
  // are too many, the one that has been silent the longest of the address that has most.
  static constexpr uint64_t kIdleMs = 60'000;
  // Records of one connection that wait for their replies; more are not read meanwhile.
  static constexpr uint32_t kMaxUnanswered = 16;

  // Listens at every address of the host, IPv4 and IPv6; port 0: any. Records beyond `max_record`
  // bytes, all fragments together, cost the connection. AlreadyExists when the port is taken.
  static absl::StatusOr<std::unique_ptr<TcpService>> Listen(uint16_t port, size_t max_record,
                                                            RecordHandler handler);
  // Waits for the thread; later replies are dropped.
  ~TcpService();
  uint16_t port() const { return port_; }

 private:
  struct Connection {
    uint64_t number = 0;
    Fd socket;
    CallRoute route;
    uint64_t heard_ms = 0;
    uint32_t unanswered = 0;
    std::vector<uint8_t> in;   // fragments as they came, with their marks
    std::vector<uint8_t> out;  // of replies, from sent on not gone yet
    size_t sent = 0;

    bool MayRead() const { return out.empty() && unanswered < kMaxUnanswered; }
  };

  struct Outbox;

  TcpService(size_t max_record, RecordHandler handler);
  void Serve();
  // Whether the connection stays.
  bool Attend(Connection& connection, short events, uint64_t now_ms);
  void TakeReplies(uint64_t now_ms);
  void Accept(uint64_t now_ms);
  void MakeRoom();
  // False: to be closed.
  bool Read(Connection& connection, uint64_t now_ms);
  bool TakeRecords(Connection& connection);
  bool Write(Connection& connection);

  size_t max_record_;
  RecordHandler handler_;
  std::shared_ptr<Outbox> outbox_;
  uint64_t last_number_ = 0;
  uint16_t port_ = 0;
  Fd listener_;
  Fd end_;  // an eventfd
  std::vector<std::unique_ptr<Connection>> connections_;
  std::thread thread_;
};

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_TCP_SERVICE_H_
