#include "nfs/export/credential.h"

#include "oncrpc/codec.h"
#include "oncrpc/xdr.h"

namespace pollux::nfs {
namespace {

constexpr uint32_t kRoot = 0;
// What chown(2) and its like take for "leave it": nobody's id.
constexpr uint32_t kNoId = UINT32_MAX;

bool IsSquashed(uint32_t id, const ClientRights& rights) {
  return rights.all_squash || id == kNoId || (id == kRoot && rights.root_squash);
}

}  // namespace

oncrpc::AuthStatus CredentialOf(const oncrpc::OpaqueAuth& auth, const ClientRights& rights,
                                Credential* credential) {
  const Credential anonymous{
      .uid = rights.anonymous_uid, .gid = rights.anonymous_gid, .groups = {}};
  if (auth.flavor == oncrpc::AuthFlavor::kNone) {
    *credential = anonymous;
    return oncrpc::AuthStatus::kOk;
  }
  if (auth.flavor != oncrpc::AuthFlavor::kSys) return oncrpc::AuthStatus::kRejectedCred;
  oncrpc::AuthSys sys;
  if (!oncrpc::Decode(oncrpc::XdrReader(auth.body), &sys)) return oncrpc::AuthStatus::kBadCred;
  *credential = anonymous;
  // A squashed user has none of its groups.
  if (IsSquashed(sys.uid, rights)) return oncrpc::AuthStatus::kOk;
  const auto group_of = [&](uint32_t group) {
    return IsSquashed(group, rights) ? rights.anonymous_gid : group;
  };
  credential->uid = sys.uid;
  credential->gid = group_of(sys.gid);
  for (const uint32_t group : sys.gids.items) credential->groups.push_back(group_of(group));
  return oncrpc::AuthStatus::kOk;
}

}  // namespace pollux::nfs
