#include "nfs/lock/lock_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nfs/export/file_handle.h"
#include "nfs/procedures/call_context.h"

namespace pollux::nfs {
namespace {

using oncrpc::AcceptStatus;
using Outcome = LockTable::Outcome;

absl::Span<const uint8_t> BytesOf(const Netobj& object) {
  return {reinterpret_cast<const uint8_t*>(object.text.data()), object.text.size()};
}

const Netobj& HandleIn(const Nlm4Shareargs& args) { return args.share.fh; }
template <class Args>
const Netobj& HandleIn(const Args& args) {
  return args.alock.fh;
}

template <class Args>
bool IsReclaim(const Args& args) {
  if constexpr (requires { args.reclaim; }) {
    return args.reclaim;
  } else {
    return false;
  }
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

LockClient ClientOf(const Gid& address, std::string_view name) {
  return {.address = address, .name = std::string(name)};
}

// Returns nothing if the range exceeds the largest possible file.
std::optional<LockRequest> RequestOf(const oncrpc::ServiceCall& call, const Nlm4Lock& lock,
                                     bool exclusive) {
  const auto range = ByteRange::From(lock.l_offset, lock.l_len);
  if (!range.has_value()) return std::nullopt;
  return LockRequest{.file = std::string(lock.fh.text),
                     .owner = {.client = ClientOf(call.client(), lock.caller_name.text),
                               .svid = lock.svid,
                               .oh = std::string(lock.oh.text)},
                     .range = *range,
                     .exclusive = exclusive,
                     .server = call.server()};
}

ShareRequest ShareOf(const LockClient& client, const Nlm4Share& share, uint64_t incarnation) {
  return {.file = std::string(share.fh.text),
          .client = client,
          .oh = std::string(share.oh.text),
          .access = share.access & kFsh4Both,
          .mode = share.mode & kFsh4Both,
          .incarnation = incarnation};
}

// Whether a procedure only gives up what its caller holds. It needs no rights: an export that no
// longer admits the client may hold locks of it, which nobody else would release.
bool IsRelease(uint32_t procedure) {
  switch (static_cast<NlmProcedure>(procedure)) {
    case NlmProcedure::kCancel:
    case NlmProcedure::kCancelMsg:
    case NlmProcedure::kUnlock:
    case NlmProcedure::kUnlockMsg:
    case NlmProcedure::kUnshare:
      return true;
    default:
      return false;
  }
}

uint64_t NowNs() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                               std::chrono::nanoseconds(1));
}

constexpr useconds_t kLeaseRetryUs = 10'000;

// The largest cookie with the largest holder.
constexpr size_t kMaxLockResultBytes = 2 * kMaxNetobj + 256;

}  // namespace

LockCalls::Shared::Shared(const ServedExports* all, LockTables* locks,
                          std::chrono::steady_clock::duration storage_timeout)
    : exports(all),
      tables(locks),
      clients([locks](const LockClient& client) { return locks->IsHolder(client); }),
      waiting(storage_timeout) {
  for (const auto& served : all->all()) overdue[served.get()] = 0;
}

bool LockCalls::Shared::Remember(const Gid& host) {
  const absl::Status status = hosts->Add(host, [this] {
    // The host of a LOCK call must stay stored until its lock is in a table. Tables come second:
    // the lock of a call that ends in between is there.
    std::set<Gid> holders = pending.Hosts();
    holders.merge(tables->Hosts());
    return holders;
  });
  const std::lock_guard lock(refusal_mutex);
  if (status.ok()) {
    refusal.clear();
    return true;
  }
  // Also limited per minute: a host that is already stored can still lock, which clears the reason.
  if (refusal != status.message() && refusal_lines.Take(NowNs())) {
    refusal = std::string(status.message());
    log(absl::StrCat("locks are refused: ", refusal));
  }
  return false;
}

bool LockCalls::Shared::FreeAll(const LockClients::Incarnation& incarnation,
                                const ServedExport* but) {
  bool all = true;
  for (const ExportEntry& entry : *exports->table()) {
    ServedExport* const served = entry.served;
    if (served == but) continue;
    all &= served->storage->RunControl(
        [granter = granter, served, table = &tables->Of(*served), incarnation](Identity&) {
          table->FreeAll(incarnation.client, incarnation.number);
          granter->Deliver(served);
        });
  }
  return all;
}

bool LockCalls::Shared::Drop(const LockClient& client) {
  pending.GiveUp([&](const PendingLock& lock) { return lock.request.owner.client == client; });
  const auto renewed = clients.Renew(client);
  // Who is not known holds nothing.
  if (!renewed.has_value()) return true;
  const LockClients::Incarnation now{.client = client, .number = *renewed};
  if (!FreeAll(now, nullptr)) return false;
  clients.Freed(now, std::nullopt);
  return true;
}

Nlm4Stats LockCalls::Session::Enter(const LockClient& holder, std::optional<uint32_t> state,
                                    uint64_t* incarnation) {
  const auto heard = shared.clients.HeardOf(holder, state);
  if (!heard.has_value()) return Nlm4Stats::kDeniedNolocks;
  if (heard->stale) return Nlm4Stats::kDeniedGracePeriod;
  const LockClients::Incarnation now{.client = holder, .number = heard->incarnation};
  if (!heard->freed && state.has_value()) {
    // Before locks are freed: calls of earlier incarnations must not take any after that.
    shared.pending.GiveUp([&](const PendingLock& lock) {
      return lock.request.owner.client == holder && lock.state != state;
    });
  }
  // Here before the new lock; elsewhere it may be a little later.
  locks.FreeAll(holder, now.number);
  if (!heard->freed && shared.FreeAll(now, entry.served)) shared.clients.Freed(now, state);
  *incarnation = now.number;
  return Nlm4Stats::kGranted;
}

bool LockCalls::Session::MayTake(bool reclaim) const {
  if (!reclaim) return !shared.InGrace();
  return shared.InGrace() && shared.hosts->before().contains(call.client());
}

LockCalls::LockCalls(const ServedExports* exports, Options options)
    : shared_(std::make_shared<Shared>(exports, options.tables, options.storage_timeout)) {
  shared_->hosts = options.hosts;
  shared_->log = std::move(options.log);
  shared_->tell_result = std::move(options.tell_result);
  if (!options.hosts->before().empty()) {
    shared_->grace_end = std::chrono::steady_clock::now() + options.grace;
  }
  shared_->hosts->KeepToldUntil(shared_->grace_end);
  shared_->granter = LockGranter::Start(exports, options.tables, std::move(options.tell_granted));
}

LockCalls::~LockCalls() { shared_->granter->Stop(); }

void LockCalls::Serve(oncrpc::ServiceCall call) {
  switch (static_cast<NlmProcedure>(call.procedure())) {
    case NlmProcedure::kNull:
      return call.Reply(oncrpc::Void());
    case NlmProcedure::kTest:
      return Start(std::move(call), &Test);
    case NlmProcedure::kTestMsg:
      return Start(std::move(call), &Test, NlmProcedure::kTestRes);
    case NlmProcedure::kLock:
    case NlmProcedure::kNmLock:
      return Start(std::move(call), &Lock);
    case NlmProcedure::kLockMsg:
      return Start(std::move(call), &Lock, NlmProcedure::kLockRes);
    case NlmProcedure::kCancel:
      return Start(std::move(call), &Cancel);
    case NlmProcedure::kCancelMsg:
      return Start(std::move(call), &Cancel, NlmProcedure::kCancelRes);
    case NlmProcedure::kUnlock:
      return Start(std::move(call), &Unlock);
    case NlmProcedure::kUnlockMsg:
      return Start(std::move(call), &Unlock, NlmProcedure::kUnlockRes);
    case NlmProcedure::kShare:
      return Start(std::move(call), &Share);
    case NlmProcedure::kUnshare:
      return Start(std::move(call), &Unshare);
    case NlmProcedure::kFreeAll:
      return FreeAll(std::move(call));
    case NlmProcedure::kGranted:
      return Refuse(std::move(call));
    case NlmProcedure::kGrantedMsg:
      return Refuse(std::move(call), NlmProcedure::kGrantedRes);
    case NlmProcedure::kTestRes:
    case NlmProcedure::kLockRes:
    case NlmProcedure::kCancelRes:
    case NlmProcedure::kUnlockRes:
    case NlmProcedure::kGrantedRes:
      return call.Reply(oncrpc::Void());
  }
  call.Fail(AcceptStatus::kProcedureUnavailable);
}

template <class Res>
void LockCalls::Reply(Shared& shared, oncrpc::ServiceCall& call, const Res& results,
                      NlmProcedure told_by) {
  if (told_by == NlmProcedure::kNull) return call.Reply(results);
  call.Reply(oncrpc::Void());
  // A stranger has no host of anybody's called.
  if (!shared.exports->Admit(call.client())) return;
  std::vector<uint8_t> bytes(kMaxLockResultBytes);
  bytes.resize(oncrpc::Encode(results, absl::MakeSpan(bytes)).stream.size());
  // One that there is no room for is asked for again.
  shared.outgoing.Post(call.client(),
                       [&shared, client = call.client(), told_by, bytes = std::move(bytes)] {
                         return shared.tell_result(client, told_by, bytes);
                       });
}

LockCalls::Arrival LockCalls::NoteArrival(Shared& shared, const oncrpc::ServiceCall& call,
                                          const Nlm4Lockargs& args) {
  auto request = RequestOf(call, args.alock, args.exclusive);
  if (!request.has_value()) return {};
  // Only a monitored host is notified when this server restarts, and notifies this server when it
  // restarts itself.
  const bool monitored = call.procedure() != static_cast<uint32_t>(NlmProcedure::kNmLock);
  const auto state = monitored ? std::optional<uint32_t>(args.state) : std::nullopt;
  return {.lock = shared.pending.Add(*std::move(request), state)};
}

LockCalls::Arrival LockCalls::NoteArrival(Shared& shared, const oncrpc::ServiceCall& call,
                                          const Nlm4Cancargs& args) {
  const auto request = RequestOf(call, args.alock, args.exclusive);
  if (!request.has_value()) return {};
  return {.lock = nullptr, .gave_up = shared.pending.GiveUp([&](const PendingLock& lock) {
            return lock.request == *request;
          })};
}

LockCalls::Arrival LockCalls::NoteArrival(Shared& shared, const oncrpc::ServiceCall& call,
                                          const Nlm4Unlockargs& args) {
  const auto request = RequestOf(call, args.alock, false);
  if (!request.has_value()) return {};
  // Of a part, the rest would be denied too: only calls that were abandoned are meant, and their
  // UNLOCK is of the whole range.
  shared.pending.GiveUp([&](const PendingLock& lock) {
    const ByteRange& range = lock.request.range;
    return lock.request.file == request->file && lock.request.owner == request->owner &&
           request->range.begin <= range.begin && range.last <= request->range.last;
  });
  return {};
}

template <class Res, class Args>
void LockCalls::Start(oncrpc::ServiceCall call, Res (*serve)(Session&, const Args&),
                      NlmProcedure told_by) {
  Args args;
  if (!call.Read(&args)) return call.Fail(AcceptStatus::kGarbageArguments);
  auto entry = shared_->exports->Find(ClaimedExport(BytesOf(HandleIn(args))));
  if (!entry.has_value()) {
    return Reply(*shared_, call, Res{.cookie = args.cookie, .stat = Nlm4Stats::kStaleFh}, told_by);
  }
  // Also if the call is put off: clients do not repeat a CANCEL.
  Arrival arrival = NoteArrival(*shared_, call, args);
  // Whose it is, WaitingCalls says.
  auto waiting = std::make_shared<oncrpc::ServiceCall>(std::move(call));
  const auto put_off = [raw = shared_.get(), args, told_by, waiting] {
    Reply(*raw, *waiting, Res{.cookie = args.cookie, .stat = Nlm4Stats::kDeniedGracePeriod},
          told_by);
  };
  ServedExport* const served = entry->served;
  std::atomic<int64_t>* const overdue = &shared_->overdue.at(served);
  if (*overdue > 0 && !IsReclaim(args)) return put_off();
  const uint64_t number = IsReclaim(args) ? 0 : shared_->waiting.Add([overdue, put_off] {
    ++*overdue;
    put_off();
  });
  const bool runs = served->storage->RunControlCall([shared = shared_, entry = *std::move(entry),
                                                     args, serve, told_by, number, overdue, waiting,
                                                     arrival =
                                                         std::move(arrival)](Identity& identity) {
    if (number != 0 && !shared->waiting.Take(number)) {
      --*overdue;
      return;
    }
    oncrpc::ServiceCall& call = *waiting;
    const ClientRights* const rights = entry.tree->exported().RightsOf(call.client());
    Session session{.shared = *shared,
                    .entry = entry,
                    .locks = shared->tables->Of(*entry.served),
                    .context = {.tree = entry.tree.get(), .rights = rights, .identity = &identity},
                    .call = call,
                    .arrival = arrival};
    const oncrpc::AuthStatus authenticated = CredentialOf(
        call.credential(), rights != nullptr ? *rights : ClientRights{}, &session.context.caller);
    if (authenticated != oncrpc::AuthStatus::kOk) return call.Deny(authenticated);
    Res results{.stat = Nlm4Stats::kFailed};
    if (rights != nullptr || IsRelease(call.procedure())) results = serve(session, args);
    results.cookie = args.cookie;
    Reply(*shared, call, results, told_by);
    shared->granter->Deliver(entry.served);
  });
  // What storage has no room for is put off at once: no answer would cost the connection, with the
  // calls for other exports on it. A reclaim is not answered, and is asked again.
  if (runs || number == 0) return;
  if (shared_->waiting.Take(number)) return put_off();
  --*overdue;
}

void LockCalls::Refuse(oncrpc::ServiceCall call, NlmProcedure told_by) {
  Nlm4Testargs args;
  if (!call.Read(&args)) return call.Fail(AcceptStatus::kGarbageArguments);
  Reply(*shared_, call, Nlm4Res{.cookie = args.cookie, .stat = Nlm4Stats::kDenied}, told_by);
}

void LockCalls::FreeAll(oncrpc::ServiceCall call) {
  Nlm4Notify args;
  if (!call.Read(&args)) return call.Fail(AcceptStatus::kGarbageArguments);
  const LockClient client = ClientOf(call.client(), args.name.text);
  // What cannot be done now is not answered, and is asked again.
  if (shared_->Drop(client)) call.Reply(oncrpc::Void());
}

bool LockCalls::HasRestarted(const Gid& host, uint32_t state,
                             std::optional<std::string_view> name) {
  // Also of clients that are not known, because they have taken no lock yet.
  shared_->pending.GiveUp([&](const PendingLock& lock) {
    const LockClient& client = lock.request.owner.client;
    return client.address == host && lock.state != state &&
           (!name.has_value() || IsSameHost(client.name, *name));
  });
  bool all = true;
  for (const auto& incarnation : shared_->clients.Restarted(host, state, name)) {
    const bool freed = shared_->FreeAll(incarnation, nullptr);
    // Not before: it is to be found again when it is told once more.
    if (freed) shared_->clients.Freed(incarnation, state);
    all &= freed;
  }
  return all;
}

absl::StatusOr<size_t> LockCalls::Drop(const Gid& address) {
  shared_->pending.GiveUp(
      [&](const PendingLock& lock) { return lock.request.owner.client.address == address; });
  size_t clients = 0;
  bool all = true;
  for (const LockClient& client : shared_->tables->Holders()) {
    if (client.address != address) continue;
    ++clients;
    all &= shared_->Drop(client);
  }
  if (all) return clients;
  return absl::UnavailableError("the server's storage is busy; try again");
}

// Programs may read locks and write locks by turns, and the file is opened once: for both, if it
// can be.
Nlm4Stats LockCalls::Open(const Session& session, const Netobj& handle, bool exclusive,
                          bool reclaim, Fd* file) {
  const CallContext& context = session.context;
  Fd object, allowed;
  Nfsstat3 status = context.tree->Find(BytesOf(handle), &object);
  if (status == Nfsstat3::kOk && exclusive && context.rights->read_only) {
    status = Nfsstat3::kRofs;
  }
  if (status != Nfsstat3::kOk) return StatOf(status);
  bool leased = false;
  do {
    if (leased) usleep(kLeaseRetryUs);
    leased = false;
    status = OpenFile(context, object, exclusive, &allowed, &leased);
    if (status != Nfsstat3::kOk) continue;
    *file = OpenUnleased(object, O_RDWR);
    leased = !file->ok() && errno == EAGAIN;
  } while (leased && reclaim && session.shared.InGrace());
  if (leased) return Nlm4Stats::kDeniedGracePeriod;
  if (status != Nfsstat3::kOk) return StatOf(status);
  if (!file->ok()) *file = std::move(allowed);
  return Nlm4Stats::kGranted;
}

Nlm4Testres LockCalls::Test(Session& session, const Nlm4Testargs& args) {
  // Who will hold what is not known yet.
  if (session.shared.InGrace()) return {.stat = Nlm4Stats::kDeniedGracePeriod};
  const auto request = RequestOf(session.call, args.alock, args.exclusive);
  if (!request.has_value()) return {.stat = Nlm4Stats::kFbig};
  Fd file;
  const auto open = [&](bool exclusive) {
    return Open(session, args.alock.fh, exclusive, /*reclaim=*/false, &file);
  };
  // As with fcntl(F_GETLK), either permission, read or write, is enough.
  Nlm4Stats opened = open(/*exclusive=*/false);
  if (opened == Nlm4Stats::kFailed && !session.context.rights->read_only) {
    opened = open(/*exclusive=*/true);
  }
  if (opened != Nlm4Stats::kGranted) return {.stat = opened};
  const auto holder = session.locks.Test(*request, file);
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
  if (!session.MayTake(args.reclaim)) return {.stat = Nlm4Stats::kDeniedGracePeriod};
  if (session.arrival.lock == nullptr) return {.stat = Nlm4Stats::kFbig};
  PendingLock& pending = *session.arrival.lock;
  const LockRequest& request = pending.request;
  // First: a datagram's sender may be forged, and a file's handle not.
  Fd file;
  const Nlm4Stats opened = Open(session, args.alock.fh, args.exclusive, args.reclaim, &file);
  if (opened != Nlm4Stats::kGranted) return {.stat = opened};
  // Its state may be that before a restart, which must not be taken for a new one.
  if (!pending.undecided) return {.stat = Nlm4Stats::kDenied};
  uint64_t incarnation = 0;
  const Nlm4Stats entered = session.Enter(request.owner.client, pending.state, &incarnation);
  if (entered != Nlm4Stats::kGranted) return {.stat = entered};
  if (pending.state.has_value() && !session.shared.Remember(request.owner.client.address)) {
    return {.stat = Nlm4Stats::kDeniedNolocks};
  }
  return {.stat = StatOf(session.locks.Lock(request, args.block, std::move(file), incarnation,
                                            &pending.undecided))};
}

Nlm4Res LockCalls::Cancel(Session& session, const Nlm4Cancargs& args) {
  const auto request = RequestOf(session.call, args.alock, args.exclusive);
  const bool was_waiting = request.has_value() && session.locks.Cancel(*request);
  const bool cancelled = was_waiting || session.arrival.gave_up;
  return {.stat = cancelled ? Nlm4Stats::kGranted : Nlm4Stats::kDenied};
}

Nlm4Res LockCalls::Unlock(Session& session, const Nlm4Unlockargs& args) {
  const auto request = RequestOf(session.call, args.alock, false);
  if (!request.has_value()) return {.stat = Nlm4Stats::kFbig};
  session.locks.Unlock(*request);
  return {.stat = Nlm4Stats::kGranted};
}

Nlm4Shareres LockCalls::Share(Session& session, const Nlm4Shareargs& args) {
  if (!session.MayTake(args.reclaim)) return {.stat = Nlm4Stats::kDeniedGracePeriod};
  Fd object;
  const Nfsstat3 status = session.context.tree->Find(BytesOf(args.share.fh), &object);
  if (status != Nfsstat3::kOk) return {.stat = StatOf(status)};
  const LockClient client = ClientOf(session.call.client(), args.share.caller_name.text);
  uint64_t incarnation = 0;
  const Nlm4Stats entered = session.Enter(client, std::nullopt, &incarnation);
  if (entered != Nlm4Stats::kGranted) return {.stat = entered};
  return {.stat = StatOf(session.locks.Share(ShareOf(client, args.share, incarnation)))};
}

Nlm4Shareres LockCalls::Unshare(Session& session, const Nlm4Shareargs& args) {
  const LockClient client = ClientOf(session.call.client(), args.share.caller_name.text);
  session.locks.Unshare(ShareOf(client, args.share, 0));
  return {.stat = Nlm4Stats::kGranted};
}

}  // namespace pollux::nfs
