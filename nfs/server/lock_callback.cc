#include "nfs/server/lock_callback.h"

#include <limits.h>
#include <unistd.h>

#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "nfs/client/tcp_rpc.h"
#include "nfs/nlm.h"
#include "rpcrdma/rpcbind.h"
#include "stack/net/address.h"

namespace pollux::nfs {
namespace {

std::string OwnName() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

bool TellGranted(const LockRequest& request) {
  const Gid& address = request.owner.client.address;
  auto rpcbind = rpcrdma::RpcBind::At(address);
  if (!rpcbind.ok()) return false;
  const auto manager = rpcbind->FindTcp(kNlmProgram, kNlmV4, address);
  return manager.ok() && TellGrantedAt(*manager, request);
}

bool TellGrantedAt(const cm::Endpoint& manager, const LockRequest& request) {
  const std::string own = OwnName();
  auto rpc =
      TcpRpc::Connect(manager, kNlmProgram, kNlmV4, {.machinename = {own}},
                      absl::StrCat("the lock manager of ", net::FormatAddress(manager.address)));
  if (!rpc.ok()) return false;
  Nlm4Testargs args{.exclusive = request.exclusive};
  args.alock.caller_name.text = own;
  args.alock.fh.text = request.file;
  args.alock.oh.text = request.owner.oh;
  args.alock.svid = request.owner.svid;
  args.alock.l_offset = request.range.begin;
  args.alock.l_len = request.range.length();
  Nlm4Res result;
  const absl::Status status =
      rpc->Call(static_cast<uint32_t>(NlmProcedure::kGranted), args, &result);
  return !status.ok() || result.stat == Nlm4Stats::kGranted;
}

}  // namespace pollux::nfs
