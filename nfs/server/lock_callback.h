// NLMPROC4_GRANTED: the call by which a server tells a client that it has a lock. RFC 1813 section
// 6.2
#ifndef POLLUX_NFS_SERVER_LOCK_CALLBACK_H_
#define POLLUX_NFS_SERVER_LOCK_CALLBACK_H_

#include "cm/manager.h"
#include "nfs/server/lock_table.h"

namespace pollux::nfs {

// Asks the client's rpcbind for its lock manager, then that over TCP. False when the client does
// not want the lock (any more), or cannot be asked; true also when it was asked and does not
// answer: it may have taken it. Blocks, for seconds.
bool TellGranted(const LockRequest& request);
// The same of a lock manager that is found.
bool TellGrantedAt(const cm::Endpoint& manager, const LockRequest& request);

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_SERVER_LOCK_CALLBACK_H_
