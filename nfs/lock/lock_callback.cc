#include "nfs/lock/lock_callback.h"

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "nfs/lock/own_name.h"
#include "oncrpc/rpcbind.h"
#include "oncrpc/stream_client.h"
#include "stack/base/address.h"

namespace pollux::nfs {
namespace {

absl::StatusOr<SocketAddress> FindManager(const Gid& client) {
  auto rpcbind = oncrpc::RpcBind::At(client);
  if (!rpcbind.ok()) return rpcbind.status();
  return rpcbind->Find(kNlmProgram, kNlmV4, client, oncrpc::RpcBind::Transport::kTcp);
}

absl::StatusOr<oncrpc::StreamClient> Connect(const SocketAddress& manager,
                                             const std::string& own_name, const Gid& from = {}) {
  return oncrpc::StreamClient::Connect(
      manager, kNlmProgram, kNlmV4, {.machinename = {own_name}},
      absl::StrCat("the lock manager of ", FormatAddress(manager.address)), {}, from);
}

}  // namespace

bool TellGranted(const LockRequest& request) {
  const auto manager = FindManager(request.owner.client.address);
  return manager.ok() && TellGrantedAt(*manager, request);
}

bool TellGrantedAt(const SocketAddress& manager, const LockRequest& request) {
  const std::string own = OwnName();
  auto rpc = Connect(manager, own, request.server);
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

bool TellResult(const Gid& client, NlmProcedure procedure, absl::Span<const uint8_t> results) {
  const auto manager = FindManager(client);
  return manager.ok() && TellResultAt(*manager, procedure, results);
}

bool TellResultAt(const SocketAddress& manager, NlmProcedure procedure,
                  absl::Span<const uint8_t> results) {
  auto rpc = Connect(manager, OwnName());
  return rpc.ok() && rpc->CallEncoded(static_cast<uint32_t>(procedure), results).ok();
}

}  // namespace pollux::nfs
