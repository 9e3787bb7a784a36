#include "nfs/client/mount_client.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "nfs/mount/mount.h"
#include "nfs/v3/status.h"
#include "oncrpc/rpc_message.h"
#include "oncrpc/rpcbind.h"
#include "stack/base/address.h"

namespace pollux::nfs {
namespace {

constexpr uint32_t Number(MountProcedure procedure) { return static_cast<uint32_t>(procedure); }

bool Usable(uint32_t flavor) {
  return flavor == static_cast<uint32_t>(oncrpc::AuthFlavor::kSys) ||
         flavor == static_cast<uint32_t>(oncrpc::AuthFlavor::kNone);
}

}  // namespace

absl::StatusOr<MountClient> MountClient::Connect(const SocketAddress& service,
                                                 const oncrpc::AuthSys& credential) {
  SocketAddress at = service;
  if (at.port == 0) {
    auto rpcbind = oncrpc::RpcBind::At(at.address);
    if (!rpcbind.ok()) return rpcbind.status();
    auto found =
        rpcbind->Find(kMountProgram, kMountV3, at.address, oncrpc::RpcBind::Transport::kTcp);
    if (!found.ok()) return found.status();
    at = *found;
  }
  auto rpc = oncrpc::StreamClient::Connect(
      at, kMountProgram, kMountV3, credential,
      absl::StrCat("the MOUNT service at ", FormatAddress(at.address), ", TCP port ", at.port));
  if (!rpc.ok()) return rpc.status();
  return MountClient(*std::move(rpc));
}

absl::StatusOr<std::vector<std::string>> MountClient::Exports() {
  nfs::Exports exports;
  const absl::Status status = rpc_.Call(Number(MountProcedure::kExport), oncrpc::Void(), &exports);
  if (!status.ok()) return status;
  std::vector<std::string> paths;
  for (const Exportnode& node : exports.items) paths.emplace_back(node.dir.text);
  return paths;
}

absl::StatusOr<NfsFh3> MountClient::Mount(const std::string& path) {
  MountRes result;
  const absl::Status status =
      rpc_.Call(Number(MountProcedure::kMnt), Dirpath{.path = {path}}, &result);
  if (!status.ok()) return status;
  if (result.status != Nfsstat3::kOk) {
    return ToStatus(result.status, absl::StrCat("mounting ", path));
  }
  const auto& flavors = result.resok.auth_flavors.items;
  if (!flavors.empty() && std::none_of(flavors.begin(), flavors.end(), Usable)) {
    return absl::UnimplementedError(
        absl::StrCat("mounting ", path,
                     ": the server requires an authentication other than AUTH_SYS (sec=sys)"));
  }
  return result.resok.fhandle;
}

absl::Status MountClient::Unmount(const std::string& path) {
  oncrpc::Void nothing;
  return rpc_.Call(Number(MountProcedure::kUmnt), Dirpath{.path = {path}}, &nothing);
}

std::string ExportOf(const std::vector<std::string>& exports, const std::string& path) {
  std::string longest;
  for (const std::string& candidate : exports) {
    absl::string_view base = candidate;
    while (absl::EndsWith(base, "/")) base.remove_suffix(1);
    absl::string_view rest = path;
    if (!absl::ConsumePrefix(&rest, base) || (!rest.empty() && rest.front() != '/')) continue;
    if (candidate.size() > longest.size()) longest = candidate;
  }
  return longest;
}

}  // namespace pollux::nfs
