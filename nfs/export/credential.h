// The user for whom a call is executed, in this host's IDs.
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

// Determines the user of a call by a client with these rights: the user and groups of AUTH_SYS, in
// which root, or with all_squash everyone, is replaced by the anonymous user; without a credential,
// the anonymous user. `*credential` is unchanged if the call's credential is malformed (kBadCred)
// or has another flavor (kRejectedCred). RFC 1813 section 4.4
oncrpc::AuthStatus CredentialOf(const oncrpc::OpaqueAuth& auth, const ClientRights& rights,
                                Credential* credential);

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_EXPORT_CREDENTIAL_H_
