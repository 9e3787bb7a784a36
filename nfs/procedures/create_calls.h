// CREATE, MKDIR, SYMLINK and MKNOD on an export. RFC 1813 sections 3.3.8 to 3.3.11. Called on
// storage threads.
#ifndef POLLUX_NFS_PROCEDURES_CREATE_CALLS_H_
#define POLLUX_NFS_PROCEDURES_CREATE_CALLS_H_

#include "nfs/procedures/call_context.h"
#include "nfs/v3/directories.h"

namespace pollux::nfs {

// 62 bits of an exclusive CREATE's verifier are stored in the file's times until a SETATTR sets
// them, so that a repeated call recognises its own file.
CreateRes Create(const CallContext& context, const CreateArgs& args);
CreateRes Mkdir(const CallContext& context, const MkdirArgs& args);
CreateRes Symlink(const CallContext& context, const SymlinkArgs& args);
CreateRes Mknod(const CallContext& context, const MknodArgs& args);

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_PROCEDURES_CREATE_CALLS_H_
