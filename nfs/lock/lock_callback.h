// The NLM calls that a server makes of its clients: that they have a lock (GRANTED), and what came
// of a call that asked for its answer in a call (the ..._RES). RFC 1813 section 6
#ifndef POLLUX_NFS_LOCK_LOCK_CALLBACK_H_
#define POLLUX_NFS_LOCK_LOCK_CALLBACK_H_

#include <cstdint>

#include "absl/types/span.h"
#include "nfs/lock/lock_table.h"
#include "nfs/lock/nlm.h"
#include "stack/base/socket_address.h"

namespace pollux::nfs {

// Asks the client's rpcbind for its lock manager, then that over TCP. False when the client does
// not want the lock (any more), or cannot be asked; true also when it was asked and does not
// answer: it may have taken it. Blocks, for seconds.
bool TellGranted(const LockRequest& request);
// The same of a lock manager that is found.
bool TellGrantedAt(const SocketAddress& manager, const LockRequest& request);

// Makes the call `procedure` with `results` in XDR; whether it was answered: a client that does not
// hear it asks again. Blocks, for seconds.
bool TellResult(const Gid& client, NlmProcedure procedure, absl::Span<const uint8_t> results);
bool TellResultAt(const SocketAddress& manager, NlmProcedure procedure,
                  absl::Span<const uint8_t> results);

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_LOCK_LOCK_CALLBACK_H_
