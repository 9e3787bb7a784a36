// RPC over the kernel's TCP, for programs that are asked little: one thread, records in and out.
// Source: RFC 5531 section 11.
#ifndef POLLUX_NFS_SERVER_RECORD_SERVER_H_
#define POLLUX_NFS_SERVER_RECORD_SERVER_H_

#include <poll.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nfs/server/fd.h"
#include "stack/base/types.h"

namespace pollux::nfs {

class RecordServer {
 public:
  static constexpr size_t kMaxConnections = 64;
  // A connection that brings no record for so long is closed; when there are too many, the one that
  // has been silent the longest.
  static constexpr uint64_t kIdleMs = 60'000;

  // Writes the reply to a record of `client` and returns its length; 0: the connection is closed.
  // On the server's own thread.
  using Answer = absl::AnyInvocable<size_t(absl::Span<const uint8_t> record, const Gid& client,
                                           absl::Span<uint8_t> reply)>;

  // Listens at every address of the host, IPv4 and IPv6; port 0: any. Records beyond `max_record`
  // bytes, all fragments together, cost the connection. AlreadyExists when the port is taken.
  static absl::StatusOr<std::unique_ptr<RecordServer>> Listen(uint16_t port, size_t max_record,
                                                              size_t max_reply, Answer answer);
  // Waits for the thread.
  ~RecordServer();
  uint16_t port() const { return port_; }

 private:
  struct Connection {
    Fd socket;
    Gid client;
    uint64_t heard_ms = 0;
    std::vector<uint8_t> in;   // fragments as they came, with their marks
    std::vector<uint8_t> out;  // of the reply, from sent on not gone yet
    size_t sent = 0;
  };

  RecordServer(size_t max_record, size_t max_reply, Answer answer);
  void Serve();
  void Accept(uint64_t now_ms);
  // False: to be closed.
  bool Read(Connection& connection, uint64_t now_ms);
  bool TakeRecords(Connection& connection);
  bool Write(Connection& connection);

  size_t max_record_;
  std::vector<uint8_t> record_;
  std::vector<uint8_t> reply_;
  Answer answer_;
  uint16_t port_ = 0;
  Fd listener_;
  Fd end_;  // an eventfd
  std::vector<std::unique_ptr<Connection>> connections_;
  std::thread thread_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_SERVER_RECORD_SERVER_H_
