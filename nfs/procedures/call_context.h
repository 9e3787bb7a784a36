// What the procedures work with, and the steps that they share. All run on storage threads and
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

// The bits of a mode that a client sets: permissions, set-user-ID, set-group-ID, sticky.
inline constexpr mode_t kPermissions = 07777;

// What has been written but not committed is lost when the server's process ends, or when a file
// system fails to store it: then this changes, and clients write it again. RFC 1813 section 3.3.7
using WriteVerifier = std::atomic<uint64_t>;

struct CallContext {
  const ExportTree* tree = nullptr;
  ChangeWatch* changes = nullptr;
  WriteVerifier* verifier = nullptr;
  Identity* identity = nullptr;  // the thread's; the server's own between calls
  Credential caller;
  // The call's own memory for data and names; results may point into it.
  absl::Span<uint8_t> block;
};

// Acts as the caller while it lives.
class AsCaller {
 public:
  explicit AsCaller(const CallContext& context)
      : identity_(context.identity), ok_(identity_->Become(context.caller)) {}
  ~AsCaller() {
    // A thread that cannot become itself again must not act for anybody.
    if (!identity_->BecomeServer()) std::abort();
  }
  AsCaller(const AsCaller&) = delete;
  AsCaller& operator=(const AsCaller&) = delete;
  bool ok() const { return ok_; }

 private:
  Identity* identity_;
  bool ok_;
};

Fattr3 AttributesOf(const struct stat& attributes, uint64_t fsid);
// Nothing when the object is gone, or there was none.
PostOpAttr AttributesOf(const CallContext& context, const Fd& object);

// A path to the object itself, whatever its kind, for calls that take no descriptor.
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

  // When the object is there, before the change.
  void Begin(const CallContext& context, const Fd& object);
  // After the change. Without Begin() it knows nothing of before.
  WccData End(const CallContext& context, const Fd& object);
  const struct stat& before() const { return before_; }

 private:
  ChangeWatch* changes_ = nullptr;  // while a change is under way
  ChangeWatch::Ticket ticket_;
  struct stat before_ = {};
};

Nfstime3 ToNfstime3(const timespec& time);

// Makes what is given true of an object, as the caller. The kernel is asked for an owner and a
// group that the object has already, too: who may not set them is refused, and their set-user-ID
// and set-group-ID bits go.
Nfsstat3 SetAttributes(const CallContext& context, const Fd& object, const Sattr3& wanted);

// Puts what a call changed on stable storage, which comes before its reply; as the server. Other
// objects than files and directories are stored with the directory that names them. RFC 1813
// section 4.7
Nfsstat3 Settle(const Fd& object);

// A regular file for reading or writing by the caller. Its owner may always (the client's kernel
// has checked when the file was opened there, and the mode may have changed since); who may execute
// may read. kInval for what is no regular file. RFC 1813 section 4.4
Nfsstat3 OpenFile(const CallContext& context, const Fd& object, bool write, Fd* file);

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_PROCEDURES_CALL_CONTEXT_H_
