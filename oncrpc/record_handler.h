// The interface between a service over the kernel's TCP or UDP and the program that it serves:
// records, and senders for their replies.
#ifndef POLLUX_ONCRPC_RECORD_HANDLER_H_
#define POLLUX_ONCRPC_RECORD_HANDLER_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "stack/base/types.h"

namespace pollux::oncrpc {

// The addresses of a call, and the limits of its reply.
struct CallRoute {
  Gid client;
  Gid server;
  size_t max_reply = size_t{1} << 30;  // bytes; larger replies cannot be sent
  bool connected = true;               // false: the client's address may be forged
};

// Sends the reply to one call. Any thread may use it, even after the service has ended.
class ReplySender {
 public:
  // `post` receives the reply, or an empty vector if there is none. It may run on any thread and
  // must not block.
  using Post = absl::AnyInvocable<void(std::vector<uint8_t> message)>;
  explicit ReplySender(Post post) : post_(std::move(post)) {}
  ReplySender(ReplySender&& other) noexcept : post_(std::exchange(other.post_, nullptr)) {}
  ReplySender& operator=(ReplySender&&) = delete;
  // Closes a TCP connection if no reply was sent, so that the client repeats the call.
  ~ReplySender() {
    if (post_ != nullptr) post_({});
  }
  // Sends the reply, at most 2^31 - 1 bytes. At most once.
  void Send(std::vector<uint8_t> message) { std::exchange(post_, nullptr)(std::move(message)); }

 private:
  Post post_;
};

// Receives a record on the service's own thread, and must not block it.
using RecordHandler = absl::AnyInvocable<void(std::vector<uint8_t> record, const CallRoute& route,
                                              ReplySender reply)>;

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_RECORD_HANDLER_H_
