// RPC over the kernel's TCP, for programs that are asked little: one thread, records in and out, in
// the order in which their replies are ready.
// Source: RFC 5531 section 11.
#ifndef POLLUX_NFS_SERVER_RECORD_SERVER_H_
#define POLLUX_NFS_SERVER_RECORD_SERVER_H_

#include <poll.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "stack/base/fd.h"
#include "stack/base/types.h"

namespace pollux::nfs {

class RecordServer {
 public:
  static constexpr size_t kMaxConnections = 64;
  // A connection that brings no record for so long, and waits for no reply, is closed; when there
  // are too many, the one that has been silent the longest.
  static constexpr uint64_t kIdleMs = 60'000;
  // Records of one connection that wait for their replies; more are not read meanwhile.
  static constexpr uint32_t kMaxUnanswered = 16;

  // The two ends of the way that a record came by.
  struct Ends {
    Gid client;
    Gid server;
    size_t max_reply = size_t{1} << 30;  // bytes; larger ones cannot be sent
    bool connected = true;               // else anybody may have claimed to be the client
  };

  // The way back of one record's reply. Any thread, also when the server is no more.
  class Reply {
   public:
    // `post` is given the reply, or nothing when there will be none. Any thread; must not wait.
    using Post = absl::AnyInvocable<void(std::vector<uint8_t> message)>;
    explicit Reply(Post post) : post_(std::move(post)) {}
    Reply(Reply&& other) noexcept : post_(std::exchange(other.post_, nullptr)) {}
    Reply& operator=(Reply&&) = delete;
    // Unless it was sent, the connection is closed: its client asks again.
    ~Reply() {
      if (post_ != nullptr) post_({});
    }
    // At most 2^31 - 1 bytes. Once.
    void Send(std::vector<uint8_t> message) { std::exchange(post_, nullptr)(std::move(message)); }

   private:
    Post post_;
  };

  // Takes a record. On the server's own thread, which it must not hold up.
  using Handler =
      absl::AnyInvocable<void(std::vector<uint8_t> record, const Ends& ends, Reply reply)>;

  // Listens at every address of the host, IPv4 and IPv6; port 0: any. Records beyond `max_record`
  // bytes, all fragments together, cost the connection. AlreadyExists when the port is taken.
  static absl::StatusOr<std::unique_ptr<RecordServer>> Listen(uint16_t port, size_t max_record,
                                                              Handler handler);
  // Waits for the thread; replies that come later are nobody's.
  ~RecordServer();
  uint16_t port() const { return port_; }

 private:
  struct Connection {
    uint64_t number = 0;
    Fd socket;
    Ends ends;
    uint64_t heard_ms = 0;
    uint32_t unanswered = 0;
    std::vector<uint8_t> in;   // fragments as they came, with their marks
    std::vector<uint8_t> out;  // of replies, from sent on not gone yet
    size_t sent = 0;

    bool MayRead() const { return out.empty() && unanswered < kMaxUnanswered; }
  };

  struct Outbox;

  RecordServer(size_t max_record, Handler handler);
  void Serve();
  // Whether the connection stays.
  bool Attend(Connection& connection, short events, uint64_t now_ms);
  void TakeReplies(uint64_t now_ms);
  void Accept(uint64_t now_ms);
  // False: to be closed.
  bool Read(Connection& connection, uint64_t now_ms);
  bool TakeRecords(Connection& connection);
  bool Write(Connection& connection);

  size_t max_record_;
  Handler handler_;
  std::shared_ptr<Outbox> outbox_;
  uint64_t last_number_ = 0;
  uint16_t port_ = 0;
  Fd listener_;
  Fd end_;  // an eventfd
  std::vector<std::unique_ptr<Connection>> connections_;
  std::thread thread_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_SERVER_RECORD_SERVER_H_
