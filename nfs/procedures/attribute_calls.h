// GETATTR, SETATTR, ACCESS, FSSTAT, FSINFO and PATHCONF on an export. RFC 1813 sections 3.3.1,
// 3.3.2, 3.3.4 and 3.3.18 to 3.3.20. Called on storage threads.
#ifndef POLLUX_NFS_PROCEDURES_ATTRIBUTE_CALLS_H_
#define POLLUX_NFS_PROCEDURES_ATTRIBUTE_CALLS_H_

#include "nfs/procedures/call_context.h"
#include "nfs/v3/attributes.h"
#include "nfs/v3/file_system.h"

namespace pollux::nfs {

GetattrRes Getattr(const CallContext& context, const GetattrArgs& args);
SetattrRes Setattr(const CallContext& context, const SetattrArgs& args);
AccessRes Access(const CallContext& context, const AccessArgs& args);
FsstatRes Fsstat(const CallContext& context, const FsstatArgs& args);
FsinfoRes Fsinfo(const CallContext& context, const FsinfoArgs& args);
PathconfRes Pathconf(const CallContext& context, const PathconfArgs& args);

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_PROCEDURES_ATTRIBUTE_CALLS_H_
