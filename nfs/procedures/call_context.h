// The context of the procedures, and the steps that they share. All run on storage threads and
// block on the file system.
#ifndef POLLUX_NFS_PROCEDURES_CALL_CONTEXT_H_
#define POLLUX_NFS_PROCEDURES_CALL_CONTEXT_H_

#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/types/span.h"
#include "nfs/export/change_watch.h"
#include "nfs/export/credential.h"
#include "nfs/export/export_tree.h"
#include "nfs/export/identity.h"
#include "nfs/v3/attributes.h"
#include "stack/base/fd.h"

namespace pollux::nfs {

// The bits of a mode that a client may set: permissions, set-user-ID, set-group-ID, sticky.
inline constexpr mode_t kPermissions = 07777;

// The verifier for uncommitted data. It changes when such data may be lost, because the server has
// ended or a file system has failed to store it; clients then write the data again. RFC 1813
// section 3.3.7
using WriteVerifier = std::atomic<uint64_t>;

struct CallContext {
  const ExportTree* tree = nullptr;
  const ClientRights* rights = nullptr;  // of the client
  ChangeWatch* changes = nullptr;
  WriteVerifier* verifier = nullptr;
  Identity* identity = nullptr;  // of the thread; it is the server's between calls
  Credential caller;
  // The call's own memory for data and names; results may point into it.
  absl::Span<uint8_t> block;
};

// Acts as the caller during its lifetime.
class AsCaller {
 public:
  explicit AsCaller(const CallContext& context)
      : identity_(context.identity), ok_(identity_->Become(context.caller)) {}
  ~AsCaller() {
    // A thread that cannot become the server again must not execute further calls.
    if (!identity_->BecomeServer()) std::abort();
  }
  AsCaller(const AsCaller&) = delete;
  AsCaller& operator=(const AsCaller&) = delete;
  bool ok() const { return ok_; }

 private:
  Identity* identity_;
  bool ok_;
};

// Changes the verifier: data that any client wrote may be lost.
void LoseUncommitted(const CallContext& context);

Fattr3 AttributesOf(const struct stat& attributes, uint64_t fsid);
// Returns nothing if the object is gone or `object` is empty.
PostOpAttr AttributesOf(const CallContext& context, const Fd& object);

// A path to the object itself, whatever its type, for system calls that take no descriptor.
std::string PathTo(const Fd& object);

// One change to one object, and its attributes before and after.
class WeakCache {
 public:
  WeakCache() = default;
  ~WeakCache() {
    if (changes_ != nullptr) changes_->End(ticket_);
  }
  WeakCache(const WeakCache&) = delete;
  WeakCache& operator=(const WeakCache&) = delete;

  // Call it before the change, when the object exists.
  void Begin(const CallContext& context, const Fd& object);
  // Call it right after the change, before it is stored: ChangeWatch does not see changes by local
  // processes, and clients take one between `before` and `after` for their own. Without Begin(),
  // the result has no attributes from before.
  WccData End(const CallContext& context, const Fd& object);
  const struct stat& before() const { return before_; }

 private:
  ChangeWatch* changes_ = nullptr;  // set between Begin() and End()
  ChangeWatch::Ticket ticket_;
  struct stat before_ = {};
};

Nfstime3 ToNfstime3(const timespec& time);

// Sets the given attributes of an object with the caller's identity. Owner and group are set even
// if they are unchanged, so that the kernel refuses callers that may not set them and clears the
// set-user-ID and set-group-ID bits.
Nfsstat3 SetAttributes(const CallContext& context, const Fd& object, const Sattr3& wanted);

// One change to one object, written to stable storage with the server's identity. A call must do
// this before its reply. RFC 1813 sections 4.7 and 4.8
class StableChange {
 public:
  // Opens the object for fsync(). Call it before the change: if no file descriptor is free or the
  // file is leased, the call fails with kJukebox before anything has changed, so that the client
  // can repeat it. Does nothing for symbolic links, FIFOs, sockets and devices, which cannot be
  // opened for fsync(): new ones are stored with their directory.
  Nfsstat3 Begin(const Fd& object);
  // Stores the change, if Begin() was called. A failure changes the write verifier: the kernel
  // reports it only once, so that a later COMMIT would succeed although data are lost.
  Nfsstat3 Settle(const CallContext& context);

 private:
  Fd file_;
};

// As open(2) of a regular file or directory with the access mode `flags`, but while another process
// holds a lease that does not permit it (fcntl(2)), fails with EAGAIN. open(2) would wait for up to
// 45 s, and with it a storage thread that calls for other files need. Returns no descriptor on
// failure, and sets errno.
Fd OpenUnleased(const Fd& object, int flags);

// Opens a regular file for reading or writing by the caller. The file's owner may always open it:
// the client's kernel checked the mode at open, and the mode may have changed since. Callers with
// execute permission may read it. kInval if it is not a regular file; kJukebox if there are too few
// resources or another process holds a lease. `leased`, if given, is set on failure: to whether it
// is a lease. RFC 1813 section 4.4
Nfsstat3 OpenFile(const CallContext& context, const Fd& object, bool write, Fd* file,
                  bool* leased = nullptr);

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_PROCEDURES_CALL_CONTEXT_H_
