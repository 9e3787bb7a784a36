// RPC over the kernel's UDP, for programs that are asked little: one thread, a datagram in and one
// out, in the order in which replies are ready. Source: RFC 5531 section 11.
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

// What is lost on the way, or there is no room for, is asked again by who asked; what is asked
// again while it waits for its reply has one.
class UdpService {
 public:
  // What clients have had room for since ONC RPC began; CallRoute::max_reply.
  static constexpr size_t kMaxReply = 8800;
  // Calls that wait for their replies; others are dropped meanwhile. More than an NFS server's
  // exports together let wait, so that those that stall leave room for the calls of others.
  static constexpr size_t kMaxUnanswered = 2560;

  // Listens at every address of the host, IPv4 and IPv6; port 0: any. Datagrams beyond
  // `max_record` bytes are dropped. AlreadyExists when the port is taken.
  static absl::StatusOr<std::unique_ptr<UdpService>> Listen(uint16_t port, size_t max_record,
                                                            RecordHandler handler);
  // Waits for the thread; replies that come later are sent all the same.
  ~UdpService();
  UdpService(const UdpService&) = delete;
  UdpService& operator=(const UdpService&) = delete;
  uint16_t port() const { return port_; }
  // Datagrams that were too large, or for whose calls there was no room, or that came again.
  uint64_t dropped() const { return dropped_; }

 private:
  // Whose call it is, address and port, and its XID.
  using Asked = std::tuple<Gid, uint16_t, uint32_t>;
  // What replies need, also after the server's end.
  struct Socket {
    Fd fd;
    std::mutex mutex;
    std::set<Asked> unanswered;

    // False when there are kMaxUnanswered, or this is one of them.
    bool Begin(const Asked& asked);
    void End(const Asked& asked);
  };
  // Where one came from, and the address and interface that it came to.
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
