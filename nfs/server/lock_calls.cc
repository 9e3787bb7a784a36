#include "nfs/server/lock_calls.h"

#include <fcntl.h>

#include <string>
#include <utility>

#include "nfs/server/call_context.h"
#include "nfs/server/file_handle.h"

namespace pollux::nfs {
namespace {

using rpcrdma::AcceptStatus;
using Outcome = LockTable::Outcome;

absl::Span<const uint8_t> BytesOf(const Netobj& object) {
  return {reinterpret_cast<const uint8_t*>(object.text.data()), object.text.size()};
}

const Netobj& HandleIn(const Nlm4Shareargs& args) { return args.share.fh; }
template <class Args>
const Netobj& HandleIn(const Args& args) {
  return args.alock.fh;
}

Nlm4Stats StatOf(Nfsstat3 status) {
  switch (status) {
    case Nfsstat3::kOk:
      return Nlm4Stats::kGranted;
    case Nfsstat3::kStale:
    case Nfsstat3::kBadhandle:
      return Nlm4Stats::kStaleFh;
    case Nfsstat3::kRofs:
      return Nlm4Stats::kRofs;
    case Nfsstat3::kJukebox:
      return Nlm4Stats::kDeniedNolocks;
    default:
      return Nlm4Stats::kFailed;
  }
}

Nlm4Stats StatOf(Outcome outcome) {
  switch (outcome) {
    case Outcome::kGranted:
      return Nlm4Stats::kGranted;
    case Outcome::kDenied:
      return Nlm4Stats::kDenied;
    case Outcome::kWaiting:
      return Nlm4Stats::kBlocked;
    case Outcome::kNoLocks:
      return Nlm4Stats::kDeniedNolocks;
    case Outcome::kFailed:
      break;
  }
  return Nlm4Stats::kFailed;
}

ShareRequest ShareOf(const Gid& client, const Nlm4Share& share) {
  return {.file = std::string(share.fh.text),
          .client = {.address = client, .name = std::string(share.caller_name.text)},
          .oh = std::string(share.oh.text),
          .access = share.access & kFsh4Both,
          .mode = share.mode & kFsh4Both};
}

}  // namespace

void LockCalls::Shared::FreeAll(const LockClient& client, const ServedExport* but) {
  for (const auto& served : exports->all()) {
    if (served.get() == but) continue;
    served->storage->RunControl([granter = granter, raw = served.get(), client](Identity&) {
      raw->locks.FreeAll(client);
      granter->Deliver(raw);
    });
  }
}

LockRequest LockCalls::Session::RequestOf(const Nlm4Lock& lock, const ByteRange& range,
                                          bool exclusive) const {
  return {.file = std::string(lock.fh.text),
          .owner = {.client = {.address = client, .name = std::string(lock.caller_name.text)},
                    .svid = lock.svid,
                    .oh = std::string(lock.oh.text)},
          .range = range,
          .exclusive = exclusive};
}

LockCalls::LockCalls(const ServedExports* exports, LockGranter::Tell tell)
    : shared_(std::make_shared<Shared>()) {
  shared_->exports = exports;
  shared_->granter = LockGranter::Start(exports, std::move(tell));
}

LockCalls::~LockCalls() { shared_->granter->Stop(); }

void LockCalls::Serve(ControlCall call) {
  switch (static_cast<NlmProcedure>(call.procedure())) {
    case NlmProcedure::kNull:
      return call.Answer(Void());
    case NlmProcedure::kTest:
      return Start(std::move(call), &Test);
    case NlmProcedure::kLock:
      return Start(std::move(call), &Lock);
    case NlmProcedure::kNmLock:
      return Start(std::move(call), &NmLock);
    case NlmProcedure::kCancel:
      return Start(std::move(call), &Cancel);
    case NlmProcedure::kUnlock:
      return Start(std::move(call), &Unlock);
    case NlmProcedure::kShare:
      return Start(std::move(call), &Share);
    case NlmProcedure::kUnshare:
      return Start(std::move(call), &Unshare);
    case NlmProcedure::kFreeAll:
      return FreeAll(std::move(call));
    case NlmProcedure::kGranted:
      break;
  }
  call.Fail(AcceptStatus::kProcedureUnavailable);
}

template <class Res, class Args>
void LockCalls::Start(ControlCall call, Res (*serve)(Session&, const Args&)) {
  Args args;
  if (!call.Read(&args)) return call.Fail(AcceptStatus::kGarbageArguments);
  ServedExport* const served = shared_->exports->Find(ClaimedExport(BytesOf(HandleIn(args))));
  if (served == nullptr) {
    return call.Answer(Res{.cookie = args.cookie, .stat = Nlm4Stats::kStaleFh});
  }
  // What storage has no room for costs the connection, and is asked again.
  served->storage->RunControl(
      [shared = shared_, served, args, serve, call = std::move(call)](Identity& identity) mutable {
        const Export& exported = served->tree->exported();
        Session session{.shared = *shared,
                        .served = *served,
                        .context = {.tree = served->tree.get(), .identity = &identity},
                        .client = call.client()};
        const AuthStatus authenticated =
            CredentialOf(call.credential(), exported, &session.context.caller);
        if (authenticated != AuthStatus::kOk) return call.Deny(authenticated);
        Res results{.stat = Nlm4Stats::kFailed};
        if (exported.Admits(session.client)) results = serve(session, args);
        results.cookie = args.cookie;
        call.Answer(results);
        shared->granter->Deliver(served);
      });
}

void LockCalls::FreeAll(ControlCall call) {
  Nlm4Notify args;
  if (!call.Read(&args)) return call.Fail(AcceptStatus::kGarbageArguments);
  shared_->FreeAll({.address = call.client(), .name = std::string(args.name.text)}, nullptr);
  call.Answer(Void());
}

// Programs may read locks and write locks by turns, and the file is opened once: for both, if it
// can be.
Nlm4Stats LockCalls::Open(const Session& session, const Netobj& handle, bool exclusive, Fd* file) {
  const CallContext& context = session.context;
  Fd object, allowed;
  Nfsstat3 status = context.tree->Find(BytesOf(handle), &object);
  if (status == Nfsstat3::kOk && exclusive && context.tree->exported().read_only) {
    status = Nfsstat3::kRofs;
  }
  if (status == Nfsstat3::kOk) status = OpenFile(context, object, exclusive, &allowed);
  if (status != Nfsstat3::kOk) return StatOf(status);
  *file = Fd(open(PathTo(object).c_str(), O_RDWR | O_CLOEXEC));
  if (!file->ok()) *file = std::move(allowed);
  return Nlm4Stats::kGranted;
}

Nlm4Testres LockCalls::Test(Session& session, const Nlm4Testargs& args) {
  const auto range = ByteRange::From(args.alock.l_offset, args.alock.l_len);
  if (!range.has_value()) return {.stat = Nlm4Stats::kFbig};
  Fd file;
  const Nlm4Stats opened = Open(session, args.alock.fh, args.exclusive, &file);
  if (opened != Nlm4Stats::kGranted) return {.stat = opened};
  const LockRequest request = session.RequestOf(args.alock, *range, args.exclusive);
  const auto holder = session.served.locks.Test(request, file);
  if (!holder.has_value()) return {.stat = Nlm4Stats::kGranted};
  session.holder = holder->oh;
  return {.stat = Nlm4Stats::kDenied,
          .holder = {.exclusive = holder->held.exclusive,
                     .svid = holder->svid,
                     .oh = {session.holder},
                     .l_offset = holder->held.range.begin,
                     .l_len = holder->held.range.length()}};
}

Nlm4Res LockCalls::Lock(Session& session, const Nlm4Lockargs& args) {
  const LockClient client{.address = session.client,
                          .name = std::string(args.alock.caller_name.text)};
  if (session.shared.clients.HasRestarted(client, args.state)) {
    // Here before the new lock; elsewhere it may be a little later.
    session.served.locks.FreeAll(client);
    session.shared.FreeAll(client, &session.served);
  }
  return NmLock(session, args);
}

Nlm4Res LockCalls::NmLock(Session& session, const Nlm4Lockargs& args) {
  // What was held before is gone.
  if (args.reclaim) return {.stat = Nlm4Stats::kDeniedGracePeriod};
  const auto range = ByteRange::From(args.alock.l_offset, args.alock.l_len);
  if (!range.has_value()) return {.stat = Nlm4Stats::kFbig};
  Fd file;
  const Nlm4Stats opened = Open(session, args.alock.fh, args.exclusive, &file);
  if (opened != Nlm4Stats::kGranted) return {.stat = opened};
  const LockRequest request = session.RequestOf(args.alock, *range, args.exclusive);
  return {.stat = StatOf(session.served.locks.Lock(request, args.block, std::move(file)))};
}

Nlm4Res LockCalls::Cancel(Session& session, const Nlm4Cancargs& args) {
  const auto range = ByteRange::From(args.alock.l_offset, args.alock.l_len);
  const bool cancelled = range.has_value() && session.served.locks.Cancel(session.RequestOf(
                                                  args.alock, *range, args.exclusive));
  return {.stat = cancelled ? Nlm4Stats::kGranted : Nlm4Stats::kDenied};
}

Nlm4Res LockCalls::Unlock(Session& session, const Nlm4Unlockargs& args) {
  const auto range = ByteRange::From(args.alock.l_offset, args.alock.l_len);
  if (!range.has_value()) return {.stat = Nlm4Stats::kFbig};
  session.served.locks.Unlock(session.RequestOf(args.alock, *range, false));
  return {.stat = Nlm4Stats::kGranted};
}

Nlm4Shareres LockCalls::Share(Session& session, const Nlm4Shareargs& args) {
  if (args.reclaim) return {.stat = Nlm4Stats::kDeniedGracePeriod};
  Fd object;
  const Nfsstat3 status = session.context.tree->Find(BytesOf(args.share.fh), &object);
  if (status != Nfsstat3::kOk) return {.stat = StatOf(status)};
  return {.stat = StatOf(session.served.locks.Share(ShareOf(session.client, args.share)))};
}

Nlm4Shareres LockCalls::Unshare(Session& session, const Nlm4Shareargs& args) {
  session.served.locks.Unshare(ShareOf(session.client, args.share));
  return {.stat = Nlm4Stats::kGranted};
}

}  // namespace pollux::nfs
