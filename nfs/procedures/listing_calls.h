// READDIR and READDIRPLUS on an export. RFC 1813 sections 3.3.16 and 3.3.17. Called on storage
// threads.
#ifndef POLLUX_NFS_PROCEDURES_LISTING_CALLS_H_
#define POLLUX_NFS_PROCEDURES_LISTING_CALLS_H_

#include "nfs/procedures/call_context.h"
#include "nfs/v3/listing.h"

namespace pollux::nfs {

// Cookies are the file system's own positions in the directory, which remain valid while entries
// are added and removed. The verifier is the same as long as the directory exists. Names point into
// the context's block.
ReaddirRes Readdir(const CallContext& context, const ReaddirArgs& args);
// Entries whose object cannot be examined have no attributes and no handle.
ReaddirplusRes Readdirplus(const CallContext& context, const ReaddirplusArgs& args);

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_PROCEDURES_LISTING_CALLS_H_
