// NLM version 4: the server's replies to lock manager calls. RFC 1813 section 6
#ifndef POLLUX_NFS_LOCK_LOCK_CALLS_H_
#define POLLUX_NFS_LOCK_LOCK_CALLS_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nfs/lock/lock_clients.h"
#include "nfs/lock/lock_granter.h"
#include "nfs/lock/lock_tables.h"
#include "nfs/lock/monitored_hosts.h"
#include "nfs/lock/nlm.h"
#include "nfs/lock/outgoing_calls.h"
#include "nfs/lock/pending_locks.h"
#include "nfs/lock/waiting_calls.h"
#include "nfs/server/served_export.h"
#include "oncrpc/service_call.h"
#include "stack/base/log_rate_limiter.h"

namespace pollux::nfs {

// Calls may arrive on any thread; the work runs on the storage threads of the file's export. A _MSG
// procedure is answered by a call of the client's _RES procedure. The server itself requests no
// locks: it refuses GRANTED calls and ignores _RES calls.
//
// Locks are lost when the server ends. After a restart, if hosts held locks, only those hosts may
// take locks, and only ones that they held before (reclaims), until the grace period is over.
//
// A call is answered as in a grace period, so that its client asks again, if an export's storage
// has no room for it or does not begin it in time, which means that the export stalls. All further
// calls get the same answer until the export recovers, since a connection has a limited number of
// calls in progress, and other exports need them. Reclaims, which no client repeats, wait instead.
class LockCalls {
 public:
  static constexpr size_t kMaxCallBytes = 8192;  // with the RPC header
  // Log lines per minute that say why locks are refused.
  static constexpr uint32_t kRefusalLinesPerMinute = 4;
  // Longer than storage takes that is busy but does not stall.
  static constexpr std::chrono::seconds kStorageTimeout{5};
  static constexpr oncrpc::ServiceProgram kProgram = {
      .program = kNlmProgram, .low = kNlmV4, .high = kNlmV4};

  // Sends the results of a call, in XDR, to the client. Returns whether it replied. Blocks.
  using TellResult = absl::AnyInvocable<bool(const Gid& client, NlmProcedure procedure,
                                             absl::Span<const uint8_t> results) const>;
  struct Options {
    LockGranter::Tell tell_granted;
    TellResult tell_result;
    LockTables* tables = nullptr;     // for `exports`, which it must outlive
    MonitoredHosts* hosts = nullptr;  // must outlive the objects of `exports`
    // From construction on, if hosts held locks before the restart.
    std::chrono::steady_clock::duration grace{};
    std::chrono::steady_clock::duration storage_timeout = kStorageTimeout;
    std::function<void(const std::string& line)> log;  // called on any thread
  };

  // `exports` is not owned and must outlive this object.
  LockCalls(const ServedExports* exports, Options options);
  ~LockCalls();

  // Does not block; the call is answered before or after it returns.
  void Serve(oncrpc::ServiceCall call);
  // Reports that a host has restarted, with its new NSM state. Locks that it held in an earlier
  // state are freed soon. `name` restricts that to clients that use this name, with or without its
  // domain. Returns false if there is no room for the work; call it again then.
  bool HasRestarted(const Gid& host, uint32_t state,
                    std::optional<std::string_view> name = std::nullopt);
  // Frees the locks, shares and waiting requests of all clients at the address soon, as if they had
  // restarted, for clients that will not return. They are not notified. Returns their number;
  // Unavailable if there is no room for the work: call it again then.
  absl::StatusOr<size_t> Drop(const Gid& address);

 private:
  // State that delayed storage work also needs.
  struct Shared {
    Shared(const ServedExports* all, LockTables* locks,
           std::chrono::steady_clock::duration storage_timeout);

    const ServedExports* exports;
    LockTables* tables;
    // Per export, the calls that were deferred because they waited too long and that storage still
    // holds. While there are any, the export stalls.
    std::map<const ServedExport*, std::atomic<int64_t>> overdue;
    MonitoredHosts* hosts = nullptr;
    std::chrono::steady_clock::time_point grace_end;
    std::function<void(const std::string& line)> log;
    std::mutex refusal_mutex;
    std::string refusal;  // the reason that was logged; empty after a host was stored
    LogRateLimiter refusal_lines{kRefusalLinesPerMinute};
    TellResult tell_result;
    LockClients clients;
    PendingLocks pending;
    std::shared_ptr<LockGranter> granter;
    OutgoingCalls outgoing;  // uses the others, so it is destroyed first
    WaitingCalls waiting;    // uses `outgoing` too

    bool InGrace() const { return std::chrono::steady_clock::now() < grace_end; }
    // Makes sure that the host is notified after a restart. Returns false if that is not possible,
    // because the host cannot be stored; the reason is then logged, within kRefusalLinesPerMinute,
    // unless it is the one that was logged last.
    bool Remember(const Gid& host);
    // Frees soon what the client held before that incarnation, in all exports except `but`. Returns
    // false if one has no room for the work.
    bool FreeAll(const LockClients::Incarnation& incarnation, const ServedExport* but);
    // Frees soon everything that the client holds, and starts a new incarnation of it. Returns
    // false as FreeAll().
    bool Drop(const LockClient& client);
  };
  // What the arrival of a call means for LOCK calls.
  struct Arrival {
    std::shared_ptr<PendingLock> lock;  // of a LOCK call, unless its range is invalid
    bool gave_up = false;               // whether a CANCEL call has given up a LOCK call
  };
  // A call that runs on a storage thread of its export. context.rights is null if the export does
  // not admit the client, which then can only release what it holds.
  struct Session {
    Shared& shared;
    const ExportEntry& entry;
    LockTable& locks;  // the locks of that export
    CallContext context;
    const oncrpc::ServiceCall& call;
    const Arrival& arrival;
    std::string holder;  // memory that results point to

    // Whether a lock may be taken, with regard to the grace period.
    bool MayTake(bool reclaim) const;
    // Sets `*incarnation` to that for which the client takes a lock, and frees the locks of earlier
    // incarnations in this export. `state` is that of its status monitor, if it sends one. Returns
    // kGranted; kDeniedNolocks if there is no room for the client; kDeniedGracePeriod, after which
    // it asks again, if the call is stale (see LockClients).
    Nlm4Stats Enter(const LockClient& holder, std::optional<uint32_t> state, uint64_t* incarnation);
  };

  // Called in the order in which calls arrive: a LOCK becomes pending, and a CANCEL or an UNLOCK
  // gives up pending LOCKs.
  static Arrival NoteArrival(Shared& shared, const oncrpc::ServiceCall& call,
                             const Nlm4Lockargs& args);
  static Arrival NoteArrival(Shared& shared, const oncrpc::ServiceCall& call,
                             const Nlm4Cancargs& args);
  static Arrival NoteArrival(Shared& shared, const oncrpc::ServiceCall& call,
                             const Nlm4Unlockargs& args);
  template <class Args>
  static Arrival NoteArrival(Shared& /*shared*/, const oncrpc::ServiceCall& /*call*/,
                             const Args& /*args*/) {
    return {};
  }

  static Nlm4Testres Test(Session& session, const Nlm4Testargs& args);
  static Nlm4Res Lock(Session& session, const Nlm4Lockargs& args);
  static Nlm4Res Cancel(Session& session, const Nlm4Cancargs& args);
  static Nlm4Res Unlock(Session& session, const Nlm4Unlockargs& args);
  static Nlm4Shareres Share(Session& session, const Nlm4Shareargs& args);
  static Nlm4Shareres Unshare(Session& session, const Nlm4Shareargs& args);
  // Opens the file of a lock as its export allows the caller to lock it. While another process
  // holds a lease that does not permit it, a reclaim waits, and everything else is answered as in a
  // grace period.
  static Nlm4Stats Open(const Session& session, const Netobj& handle, bool exclusive, bool reclaim,
                        Fd* file);

  // `told_by` is the client's procedure that receives the results; kNull: they are in the reply.
  template <class Res, class Args>
  void Start(oncrpc::ServiceCall call, Res (*serve)(Session&, const Args&),
             NlmProcedure told_by = NlmProcedure::kNull);
  template <class Res>
  static void Reply(Shared& shared, oncrpc::ServiceCall& call, const Res& results,
                    NlmProcedure told_by);
  // Refuses a lock that was granted to this server, which requests none.
  void Refuse(oncrpc::ServiceCall call, NlmProcedure told_by = NlmProcedure::kNull);
  void FreeAll(oncrpc::ServiceCall call);

  std::shared_ptr<Shared> shared_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_LOCK_LOCK_CALLS_H_
