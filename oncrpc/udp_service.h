// An RPC service over the kernel's UDP, for programs with few calls: one thread, one datagram per
// call and per reply. Replies are sent in the order in which they are ready. Source: RFC 5531
// section 11.
#ifndef POLLUX_ONCRPC_UDP_SERVICE_H_
#define POLLUX_ONCRPC_UDP_SERVICE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "oncrpc/record_handler.h"
#include "stack/base/fd.h"

namespace pollux::oncrpc {

// A client repeats a call that was lost or dropped. A repeated call is dropped while the first one
// waits for its reply.
class UdpService {
 public:
  // The reply size in bytes that all ONC RPC clients have always accepted; see
  // CallRoute::max_reply.
  static constexpr size_t kMaxReply = 8800;
  // The most unanswered calls; further calls are dropped. It exceeds the number of calls that all
  // exports of an NFS server together may have waiting, so that calls to other exports are still
  // served while some exports stall.
  static constexpr size_t kMaxUnanswered = 2560;

  // Listens at every IPv4 and IPv6 address of the host; port 0 stands for any free port. Starts a
  // thread that calls `handler` for each datagram; the handler must not block. Datagrams of more
  // than `max_record` bytes are dropped. AlreadyExists if the port is in use.
  static absl::StatusOr<std::unique_ptr<UdpService>> Listen(uint16_t port, size_t max_record,
                                                            RecordHandler handler);
  // Stops the thread and waits for it. Replies that come later are still sent.
  ~UdpService();
  UdpService(const UdpService&) = delete;
  UdpService& operator=(const UdpService&) = delete;
  uint16_t port() const { return port_; }
  // Datagrams dropped because they were too large or repeated, or because kMaxUnanswered calls were
  // waiting.
  uint64_t dropped() const { return dropped_; }

 private:
  // Identifies a call: the client's address and port, and the XID.
  using Asked = std::tuple<Gid, uint16_t, uint32_t>;
  // Shared with the reply senders, which may use it after the service has ended.
  struct Socket {
    Fd fd;
    std::mutex mutex;
    std::set<Asked> unanswered;

    // Returns false if there are kMaxUnanswered calls already, or if this is one of them.
    bool Begin(const Asked& asked);
    void End(const Asked& asked);
  };
  // The source of a datagram, and the address and interface at which it arrived.
  struct Way;

  UdpService(size_t max_record, RecordHandler handler);
  void Serve();
  void Receive();
  static void Send(const Socket& socket, Way& way, std::vector<uint8_t> message);

  size_t max_record_;
  RecordHandler handler_;
  std::shared_ptr<Socket> socket_;
  std::atomic<uint64_t> dropped_{0};
  uint16_t port_ = 0;
  Fd end_;  // an eventfd
  std::thread thread_;
};

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_UDP_SERVICE_H_
