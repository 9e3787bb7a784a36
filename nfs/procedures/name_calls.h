// LOOKUP, READLINK, REMOVE, RMDIR, RENAME and LINK on an export. RFC 1813 sections 3.3.3, 3.3.5 and
// 3.3.12 to 3.3.15. Called on storage threads.
#ifndef POLLUX_NFS_PROCEDURES_NAME_CALLS_H_
#define POLLUX_NFS_PROCEDURES_NAME_CALLS_H_

#include "nfs/procedures/call_context.h"
#include "nfs/v3/directories.h"
#include "nfs/v3/files.h"

namespace pollux::nfs {

LookupRes Lookup(const CallContext& context, const LookupArgs& args);
// The text points into the context's block.
ReadlinkRes Readlink(const CallContext& context, const ReadlinkArgs& args);
RemoveRes Remove(const CallContext& context, const RemoveArgs& args);
RemoveRes Rmdir(const CallContext& context, const RemoveArgs& args);
RenameRes Rename(const CallContext& context, const RenameArgs& args);
LinkRes Link(const CallContext& context, const LinkArgs& args);

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_PROCEDURES_NAME_CALLS_H_
