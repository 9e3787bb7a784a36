// NLM version 4: what each call on the lock manager is answered. RFC 1813 section 6
#ifndef POLLUX_NFS_LOCK_LOCK_CALLS_H_
#define POLLUX_NFS_LOCK_LOCK_CALLS_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
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
#include "nfs/lock/waiting_calls.h"
#include "nfs/server/served_export.h"
#include "oncrpc/service_call.h"

namespace pollux::nfs {

// Calls come by any thread; what they ask is done on the threads of the file's export. What a _MSG
// procedure asks is answered by a call of the client's _RES procedure. The server asks nobody for
// locks: what is GRANTED to it, it does not want; and it makes no call that a _RES would answer:
// those are taken, and mean nothing. Locks are lost with the server: when it starts again, and
// hosts held some, those alone may take locks, theirs from before (reclaim), until the grace period
// is over. A call that an export's storage has no room for, or does not begin for so long that it
// seems to stall, is answered as in a grace period, which has its client ask again, and so are all
// that come until it goes on: so many calls of a connection are at work at a time, and those for
// other exports need their places. Reclaims, which nobody asks again, wait.
class LockCalls {
 public:
  static constexpr size_t kMaxCallBytes = 8192;  // with its RPC header
  // Longer than storage that works hard takes.
  static constexpr std::chrono::seconds kPatience{5};
  static constexpr oncrpc::ServiceProgram kProgram = {
      .program = kNlmProgram, .low = kNlmV4, .high = kNlmV4};

  // Tells a client what came of its call, in XDR; whether it answered. Blocks.
  using TellResult = absl::AnyInvocable<bool(const Gid& client, NlmProcedure procedure,
                                             absl::Span<const uint8_t> results) const>;
  struct Options {
    LockGranter::Tell tell_granted;
    TellResult tell_result;
    LockTables* tables = nullptr;                 // of `exports`, and outlives them
    MonitoredHosts* hosts = nullptr;              // outlives what `exports` does
    std::chrono::steady_clock::duration grace{};  // from now on, if there are hosts from before
    std::chrono::steady_clock::duration patience = kPatience;
    std::function<void(const std::string& line)> log;  // any thread
  };

  // `exports` outlives it.
  LockCalls(const ServedExports* exports, Options options);
  ~LockCalls();

  // Waits for nothing; the call is answered then or later.
  void Serve(oncrpc::ServiceCall call);
  // A host has started anew and is in that state of NSM's: what it held in another is nobody's,
  // soon. `name`: what those call themselves alone, with its domain or without. False when there is
  // no room for the work now: to be asked again.
  bool HasRestarted(const Gid& host, uint32_t state,
                    std::optional<std::string_view> name = std::nullopt);
  // What clients at the address hold, share and wait for is nobody's, soon, as if they had started
  // anew: for those who are dead for good. They are not told. How many there are; Unavailable when
  // there is no room for the work now: to be asked again.
  absl::StatusOr<size_t> Drop(const Gid& address);

 private:
  // What work that storage does late needs too.
  struct Shared {
    Shared(const ServedExports* all, LockTables* locks,
           std::chrono::steady_clock::duration patience);

    const ServedExports* exports;
    LockTables* tables;
    // Of each export, the calls that were put off for the time that they waited and that its
    // storage still has: while there are some, it stalls.
    std::map<const ServedExport*, std::atomic<int64_t>> overdue;
    MonitoredHosts* hosts = nullptr;
    std::chrono::steady_clock::time_point grace_end;
    std::function<void(const std::string& line)> log;
    std::atomic<bool> said{false};  // that hosts cannot be remembered
    TellResult tell_result;
    LockClients clients;
    std::shared_ptr<LockGranter> granter;
    OutgoingCalls outgoing;  // uses the others: it goes before them
    WaitingCalls waiting;    // uses that too

    bool InGrace() const { return std::chrono::steady_clock::now() < grace_end; }
    // That the host is told when the server starts again; false when it would not be.
    bool Remember(const Gid& host);
    // What it held before that incarnation, soon, in all exports but one. False when one has no
    // room for the work.
    bool FreeAll(const LockClients::Incarnation& incarnation, const ServedExport* but);
    // All that the client holds, soon, in a new incarnation of it. False as FreeAll().
    bool Drop(const LockClient& client);
  };
  // One call on a thread of its export's storage.
  struct Session {
    Shared& shared;
    ServedExport& served;
    LockTable& locks;  // of that export
    CallContext context;
    Gid client;
    std::string holder;  // what results point at

    LockRequest RequestOf(const Nlm4Lock& lock, const ByteRange& range, bool exclusive) const;
    // As the grace period has it.
    bool MayTake(bool reclaim) const;
    // The incarnation in which the client locks something, what is left of those before freed here.
    // `state`: of its status monitor, if it says. Nothing when there is no room for the client.
    std::optional<uint64_t> Enter(const LockClient& holder, std::optional<uint32_t> state);
  };

  static Nlm4Testres Test(Session& session, const Nlm4Testargs& args);
  static Nlm4Res Lock(Session& session, const Nlm4Lockargs& args);
  static Nlm4Res NmLock(Session& session, const Nlm4Lockargs& args);
  // `monitored`: its host is told when the server starts again, and says when it has itself.
  static Nlm4Res Take(Session& session, const Nlm4Lockargs& args, bool monitored);
  static Nlm4Res Cancel(Session& session, const Nlm4Cancargs& args);
  static Nlm4Res Unlock(Session& session, const Nlm4Unlockargs& args);
  static Nlm4Shareres Share(Session& session, const Nlm4Shareargs& args);
  static Nlm4Shareres Unshare(Session& session, const Nlm4Shareargs& args);
  // The file of a lock, open as its export lets the caller lock it.
  static Nlm4Stats Open(const Session& session, const Netobj& handle, bool exclusive, Fd* file);

  // `told_by`: the procedure of the client's that is told of the results; kNull: the reply has
  // them.
  template <class Res, class Args>
  void Start(oncrpc::ServiceCall call, Res (*serve)(Session&, const Args&),
             NlmProcedure told_by = NlmProcedure::kNull);
  template <class Res>
  static void Answer(Shared& shared, oncrpc::ServiceCall& call, const Res& results,
                     NlmProcedure told_by);
  // What is granted to who has not asked for it.
  void Refuse(oncrpc::ServiceCall call, NlmProcedure told_by = NlmProcedure::kNull);
  void FreeAll(oncrpc::ServiceCall call);

  std::shared_ptr<Shared> shared_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_LOCK_LOCK_CALLS_H_
