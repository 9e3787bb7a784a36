// READDIR and READDIRPLUS on an export. RFC 1813 sections 3.3.16 and 3.3.17. On storage threads.
#ifndef POLLUX_NFS_PROCEDURES_LISTING_CALLS_H_
#define POLLUX_NFS_PROCEDURES_LISTING_CALLS_H_

#include "nfs/procedures/call_context.h"
#include "nfs/v3/listing.h"

namespace pollux::nfs {

// Cookies are the file system's own places in the directory, which stay good while entries come and
// go; the verifier is the directory's, as long as it exists. Names lie in the context's block.
ReaddirRes Readdir(const CallContext& context, const ReaddirArgs& args);
// Entries whose object cannot be looked at come without attributes and handle.
ReaddirplusRes Readdirplus(const CallContext& context, const ReaddirplusArgs& args);

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_PROCEDURES_LISTING_CALLS_H_
