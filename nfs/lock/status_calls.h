// NSM version 1, as far as other hosts call it: that they have started anew. Source: The Open
// Group's XNFS (C702) chapter 11.
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

// Nobody is monitored for others (SM_MON): this host's own lock managers have their own monitor.
class StatusCalls {
 public:
  static constexpr size_t kMaxCallBytes = 2048;  // with its RPC header
  static constexpr oncrpc::ServiceProgram kProgram = {
      .program = kNsmProgram, .low = kNsmV1, .high = kNsmV1};

  // Told that a host has started, in which state; false when that cannot be acted upon now. Any
  // thread. `name`: of those at its address, whose it is, when anybody may have sent the call and
  // has to know it; nothing: all of them.
  using Restarted = absl::AnyInvocable<bool(const Gid& host, uint32_t state,
                                            std::optional<std::string_view> name) const>;
  explicit StatusCalls(Restarted restarted) : restarted_(std::move(restarted)) {}

  // Any thread. A call that cannot be acted upon has no answer, so that it is made again.
  void Serve(oncrpc::ServiceCall call) const;

 private:
  Restarted restarted_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_LOCK_STATUS_CALLS_H_
