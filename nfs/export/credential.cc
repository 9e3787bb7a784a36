#include "nfs/export/credential.h"

#include "oncrpc/codec.h"
#include "oncrpc/xdr.h"

namespace pollux::nfs {
namespace {

constexpr uint32_t kRoot = 0;
// What chown(2) and its like take for "leave it": nobody's id.
constexpr uint32_t kNoId = UINT32_MAX;

uint32_t Mapped(uint32_t id, const Export& exported) {
  return id == kNoId || (id == kRoot && exported.root_squash) ? kAnonymousId : id;
}

}  // namespace

oncrpc::AuthStatus CredentialOf(const oncrpc::OpaqueAuth& auth, const Export& exported,
                                Credential* credential) {
  if (auth.flavor == oncrpc::AuthFlavor::kNone) {
    *credential = {};
    return oncrpc::AuthStatus::kOk;
  }
  if (auth.flavor != oncrpc::AuthFlavor::kSys) return oncrpc::AuthStatus::kRejectedCred;
  oncrpc::AuthSys sys;
  if (!oncrpc::Decode(oncrpc::XdrReader(auth.body), &sys)) return oncrpc::AuthStatus::kBadCred;
  *credential = {};
  credential->uid = Mapped(sys.uid, exported);
  // A squashed root has none of its groups.
  if (credential->uid != sys.uid) return oncrpc::AuthStatus::kOk;
  credential->gid = Mapped(sys.gid, exported);
  for (const uint32_t group : sys.gids.items) {
    credential->groups.push_back(Mapped(group, exported));
  }
  return oncrpc::AuthStatus::kOk;
}

}  // namespace pollux::nfs
