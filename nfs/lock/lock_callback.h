// The NLM calls from a server to its clients: notifications of granted locks (GRANTED), and results
// of the asynchronous procedures (the ..._RES calls). RFC 1813 section 6
#ifndef POLLUX_NFS_LOCK_LOCK_CALLBACK_H_
#define POLLUX_NFS_LOCK_LOCK_CALLBACK_H_

#include <cstdint>

#include "absl/types/span.h"
#include "nfs/lock/lock_table.h"
#include "nfs/lock/nlm.h"
#include "stack/base/socket_address.h"

namespace pollux::nfs {

// Asks the client's rpcbind for its lock manager, and then the lock manager, over TCP. Returns
// false if the client does not want the lock (any more) or cannot be reached. Returns true if it
// accepts, and if it was asked but does not reply, since it may have accepted. The call comes from
// the address to which the client sent the request: Linux takes no grants from other addresses than
// its server's. Blocks, for seconds.
bool TellGranted(const LockRequest& request);
// As TellGranted(), for a known lock manager.
bool TellGrantedAt(const SocketAddress& manager, const LockRequest& request);

// Calls `procedure` of the client with `results` in XDR. Returns whether it replied; a client that
// missed the call asks again. Blocks, for seconds.
bool TellResult(const Gid& client, NlmProcedure procedure, absl::Span<const uint8_t> results);
bool TellResultAt(const SocketAddress& manager, NlmProcedure procedure,
                  absl::Span<const uint8_t> results);

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_LOCK_LOCK_CALLBACK_H_
