// Requests that arrive between two listeners of one server.
#ifndef POLLUX_CM_CONNECTION_RELISTEN_GRACE_QUEUE_H_
#define POLLUX_CM_CONNECTION_RELISTEN_GRACE_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "cm/wire/mad.h"
#include "cm/wire/service_id.h"
#include "stack/base/types.h"
#include "stack/kernel/interface_claims.h"

namespace pollux::cm {

struct HeldRequest {
  Gid from, to;
  uint64_t transaction_id = 0;
  ServiceId service;
  Message message;  // a REQ or a SIDR_REQ
};

// Some servers end a listener and start another at the same port. A client to which the previous
// connection told that it may connect again can be faster than the server (perftest with -R). Such
// a request would be rejected with reason 8 (invalid service ID), and the client would give up. CM
// allows each side its response time, so a request that arrives within `grace_ns` after the end of
// a listener waits up to `grace_ns` for the next one. 0: none waits. The process holds the port
// that long, without keeping other processes from listening there; otherwise another process on the
// interface would reject the request.
//
// Owned by the manager, on its core.
class RelistenGraceQueue {
 public:
  // Only the last kMaxEnded listeners that ended are remembered. Requests beyond kMaxRequests are
  // rejected at once.
  static constexpr size_t kMaxEnded = 16;
  static constexpr size_t kMaxRequests = 64;

  static constexpr uint64_t kNever = UINT64_MAX;

  // `claims`: of the interface, if other processes share it; may be null; not owned.
  explicit RelistenGraceQueue(uint64_t grace_ns, kernel::InterfaceClaims* claims = nullptr)
      : grace_ns_(grace_ns), claims_(claims) {}
  ~RelistenGraceQueue();
  RelistenGraceQueue(const RelistenGraceQueue&) = delete;
  RelistenGraceQueue& operator=(const RelistenGraceQueue&) = delete;

  // Call it while the listener still has its claim, so that no other process rejects a request in
  // between. The port space does not matter: a UD service may follow a control connection over RC.
  void ListenerEnded(uint16_t port, uint64_t now_ns);
  // Forgets the listeners that ended at least twice `grace_ns` ago, for which no request waits any
  // more, and releases their ports. Returns when to call it again; kNever: not before the next
  // listener has ended.
  uint64_t ForgetDue(uint64_t now_ns);
  // Returns true if the request, or an earlier copy of it, now waits here.
  bool Keep(const HeldRequest& request, uint64_t now_ns);
  // Removes and returns, in order of arrival, the requests that have waited for `grace_ns` and
  // those for which `has_listener` returns true. Those that another process takes by now are only
  // removed: their senders repeat them.
  std::vector<HeldRequest> TakeDue(
      uint64_t now_ns, absl::FunctionRef<bool(const HeldRequest& request)> has_listener);
  bool empty() const { return waiting_.empty(); }

 private:
  struct Ended {
    uint16_t port;
    uint64_t at_ns;
    std::vector<uint64_t> held;  // service IDs
  };
  struct Waiting {
    HeldRequest request;
    uint64_t until_ns;
  };

  // Forgets the listeners for which `forgets` returns true, and releases their ports.
  void Forget(absl::FunctionRef<bool(const Ended& ended)> forgets);

  const uint64_t grace_ns_;
  kernel::InterfaceClaims* const claims_;
  std::vector<Ended> ended_;  // oldest first
  std::vector<Waiting> waiting_;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_RELISTEN_GRACE_QUEUE_H_
