// Requests that have come between two listeners of one server.
#ifndef POLLUX_CM_CONNECTION_RELISTEN_GRACE_QUEUE_H_
#define POLLUX_CM_CONNECTION_RELISTEN_GRACE_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "cm/wire/mad.h"
#include "cm/wire/service_id.h"
#include "stack/base/types.h"

namespace pollux::cm {

struct HeldRequest {
  Gid from, to;
  uint64_t transaction_id = 0;
  ServiceId service;
  Message message;  // a REQ or a SIDR_REQ
};

// Servers end a listener and begin another at its port, and their clients, told by the connection
// before that they may ask again, can be faster: perftest's -R does so. Without this they would be
// refused (REJ reason 8), which they take as final. CM gives a side its response time to answer, so
// that what comes within `grace_ns` after a listener's end waits for the next one, `grace_ns` at
// most. A grace of 0: nothing waits.
//
// Owned by the manager, on its core.
class RelistenGraceQueue {
 public:
  // The listeners remembered are the last to end; requests beyond the bound are refused at once.
  static constexpr size_t kMaxEnded = 16;
  static constexpr size_t kMaxRequests = 64;

  explicit RelistenGraceQueue(uint64_t grace_ns) : grace_ns_(grace_ns) {}

  // Of whatever port space: a control connection over RC may be followed by a UD service.
  void ListenerEnded(uint16_t port, uint64_t now_ns);
  // Whether the request now waits here, or one like it does already.
  bool Keep(const HeldRequest& request, uint64_t now_ns);
  // Takes out, in the order in which they came, those that have waited for long enough and those
  // for whose service `has_listener(request)`.
  std::vector<HeldRequest> TakeDue(
      uint64_t now_ns, absl::FunctionRef<bool(const HeldRequest& request)> has_listener);
  bool empty() const { return waiting_.empty(); }

 private:
  struct Ended {
    uint16_t port;
    uint64_t at_ns;
  };
  struct Waiting {
    HeldRequest request;
    uint64_t until_ns;
  };

  const uint64_t grace_ns_;
  std::vector<Ended> ended_;  // oldest first
  std::vector<Waiting> waiting_;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_RELISTEN_GRACE_QUEUE_H_
