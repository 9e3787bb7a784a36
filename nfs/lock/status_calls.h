// The calls of NSM version 1 by which other hosts report their restarts. Source: The Open Group's
// XNFS (C702) chapter 11.
#ifndef POLLUX_NFS_LOCK_STATUS_CALLS_H_
#define POLLUX_NFS_LOCK_STATUS_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "nfs/lock/nsm.h"
#include "oncrpc/service_call.h"

namespace pollux::nfs {

// SM_MON is not served: this host's own lock managers have their own monitor.
class StatusCalls {
 public:
  static constexpr size_t kMaxCallBytes = 2048;  // with the RPC header
  static constexpr oncrpc::ServiceProgram kProgram = {
      .program = kNsmProgram, .low = kNsmV1, .high = kNsmV1};

  // Called when a host reports a restart with its new state. Returns false if that cannot be
  // handled now. Any thread. `name` limits it to the client of that name, if the sender's address
  // may be forged and it must therefore know the name; empty: all clients at the address.
  using Restarted = absl::AnyInvocable<bool(const Gid& host, uint32_t state,
                                            std::optional<std::string_view> name) const>;
  explicit StatusCalls(Restarted restarted) : restarted_(std::move(restarted)) {}

  // Any thread. A call that cannot be handled gets no reply, so the host repeats it.
  void Serve(oncrpc::ServiceCall call) const;

 private:
  Restarted restarted_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_LOCK_STATUS_CALLS_H_
