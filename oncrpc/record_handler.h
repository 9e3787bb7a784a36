// What a service over the kernel's TCP or UDP gives to the program that it serves: records as they
// came, and the way back.
#ifndef POLLUX_ONCRPC_RECORD_HANDLER_H_
#define POLLUX_ONCRPC_RECORD_HANDLER_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "stack/base/types.h"

namespace pollux::oncrpc {

// Between which addresses a call came, and what its reply may be.
struct CallRoute {
  Gid client;
  Gid server;
  size_t max_reply = size_t{1} << 30;  // bytes; larger ones cannot be sent
  bool connected = true;               // else anybody may have claimed to be the client
};

// Sends the reply to one call. Any thread, also after the service has ended.
class ReplySender {
 public:
  // `post` is given the reply, or nothing when there will be none. Any thread; must not wait.
  using Post = absl::AnyInvocable<void(std::vector<uint8_t> message)>;
  explicit ReplySender(Post post) : post_(std::move(post)) {}
  ReplySender(ReplySender&& other) noexcept : post_(std::exchange(other.post_, nullptr)) {}
  ReplySender& operator=(ReplySender&&) = delete;
  // Unless a reply was sent, a TCP connection is closed: its client asks again.
  ~ReplySender() {
    if (post_ != nullptr) post_({});
  }
  // At most 2^31 - 1 bytes. Once.
  void Send(std::vector<uint8_t> message) { std::exchange(post_, nullptr)(std::move(message)); }

 private:
  Post post_;
};

// Takes a record. On the service's own thread, which it must not hold up.
using RecordHandler = absl::AnyInvocable<void(std::vector<uint8_t> record, const CallRoute& route,
                                              ReplySender reply)>;

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_RECORD_HANDLER_H_
