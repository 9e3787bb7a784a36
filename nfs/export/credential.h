// Who a call is made for, in this host's ids.
#ifndef POLLUX_NFS_EXPORT_CREDENTIAL_H_
#define POLLUX_NFS_EXPORT_CREDENTIAL_H_

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "nfs/export/export.h"
#include "oncrpc/auth_sys.h"
#include "oncrpc/rpc_message.h"

namespace pollux::nfs {

struct Credential {
  uid_t uid = kAnonymousId;
  gid_t gid = kAnonymousId;
  std::vector<gid_t> groups;  // at most kMaxAuthSysGids
  friend bool operator==(const Credential&, const Credential&) = default;
};

// Whom a call is made for under an export: AUTH_SYS's user and groups, with root's replaced by the
// anonymous one unless the export says otherwise; without a credential, the anonymous user. Of a
// malformed one (kBadCred) or one of another flavor (kRejectedCred) `credential` stays as it is.
// RFC 1813 section 4.4
oncrpc::AuthStatus CredentialOf(const oncrpc::OpaqueAuth& auth, const Export& exported,
                                Credential* credential);

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_EXPORT_CREDENTIAL_H_
