// NLM version 4: what each call on the lock manager is answered. RFC 1813 section 6
#ifndef POLLUX_NFS_SERVER_LOCK_CALLS_H_
#define POLLUX_NFS_SERVER_LOCK_CALLS_H_

#include <cstddef>
#include <memory>
#include <string>

#include "nfs/nlm.h"
#include "nfs/server/control_call.h"
#include "nfs/server/lock_clients.h"
#include "nfs/server/lock_granter.h"
#include "nfs/server/served_export.h"

namespace pollux::nfs {

// Calls come by one thread; what they ask is done on the threads of the file's export. The
// procedures that answer by a call of their own (_MSG, _RES) are unavailable. Locks end with the
// server: nothing brings them back when it starts again, and no call is a reclaim.
class LockCalls {
 public:
  static constexpr size_t kMaxCallBytes = 8192;  // with its RPC header
  static constexpr ControlProgram kProgram = {
      .program = kNlmProgram, .low = kNlmV4, .high = kNlmV4};

  // `exports` outlives it; `tell` tells clients of what they waited for.
  LockCalls(const ServedExports* exports, LockGranter::Tell tell);
  ~LockCalls();

  // Waits for nothing; the call is answered then or later.
  void Serve(ControlCall call);

 private:
  // What work that storage does late needs too.
  struct Shared {
    const ServedExports* exports = nullptr;
    LockClients clients;
    std::shared_ptr<LockGranter> granter;

    // Soon, in all exports but one.
    void FreeAll(const LockClient& client, const ServedExport* but);
  };
  // One call on a thread of its export's storage.
  struct Session {
    Shared& shared;
    ServedExport& served;
    CallContext context;
    Gid client;
    std::string holder;  // what results point at

    LockRequest RequestOf(const Nlm4Lock& lock, const ByteRange& range, bool exclusive) const;
  };

  static Nlm4Testres Test(Session& session, const Nlm4Testargs& args);
  static Nlm4Res Lock(Session& session, const Nlm4Lockargs& args);
  static Nlm4Res NmLock(Session& session, const Nlm4Lockargs& args);
  static Nlm4Res Cancel(Session& session, const Nlm4Cancargs& args);
  static Nlm4Res Unlock(Session& session, const Nlm4Unlockargs& args);
  static Nlm4Shareres Share(Session& session, const Nlm4Shareargs& args);
  static Nlm4Shareres Unshare(Session& session, const Nlm4Shareargs& args);
  // The file of a lock, open as its export lets the caller lock it.
  static Nlm4Stats Open(const Session& session, const Netobj& handle, bool exclusive, Fd* file);

  template <class Res, class Args>
  void Start(ControlCall call, Res (*serve)(Session&, const Args&));
  void FreeAll(ControlCall call);

  std::shared_ptr<Shared> shared_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_SERVER_LOCK_CALLS_H_
