// READ, WRITE and COMMIT on an export, each in two parts: before and after the transfer between
// memory and file. RFC 1813 sections 3.3.6, 3.3.7 and 3.3.21.
#ifndef POLLUX_NFS_PROCEDURES_DATA_CALLS_H_
#define POLLUX_NFS_PROCEDURES_DATA_CALLS_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "nfs/procedures/call_context.h"
#include "nfs/v3/files.h"

namespace pollux::nfs {

// One transfer between memory and a file, or an fsync.
struct Transfer {
  enum class Kind : uint8_t { kNone, kRead, kWrite, kSync };
  Kind kind = Kind::kNone;  // kNone: nothing to transfer
  Fd file;
  uint64_t offset = 0;
  absl::Span<uint8_t> to;  // kRead
  size_t part_bytes = 0;   // kRead: size of the parts that are reported in order; 0: one part
  absl::Span<const uint8_t> from;  // kWrite
  int flags = 0;                   // kWrite: RWF_DSYNC, RWF_SYNC
};

// Exists as long as its call.
class DataCall {
 public:
  // Open the file as the caller and set transfer(). If the result is not kOk, nothing must be
  // transferred. Called on a storage thread.
  Nfsstat3 Begin(const CallContext& context, const ReadArgs& args);
  Nfsstat3 Begin(const CallContext& context, const WriteArgs& args);
  Nfsstat3 Begin(const CallContext& context, const CommitArgs& args);
  const Transfer& transfer() const { return transfer_; }
  // Sets the size of the parts in which the data is read.
  void ReadInParts(size_t bytes) { transfer_.part_bytes = bytes; }

  // Called once, on any thread, after the transfer, or without one if `begun` is not kOk. `done`:
  // the bytes transferred, or -errno. Return the results of the call.
  ReadRes EndRead(const CallContext& context, Nfsstat3 begun, int done);
  WriteRes EndWrite(const CallContext& context, Nfsstat3 begun, int done);
  CommitRes EndCommit(const CallContext& context, Nfsstat3 begun, int done);

 private:
  Nfsstat3 BeginChange(const CallContext& context, const NfsFh3& handle);

  Fd object_;
  WeakCache wcc_;
  WccData commit_wcc_;
  Transfer transfer_;
  StableHow stable_ = StableHow::kUnstable;
  // Of a WRITE, from before the transfer: a failure to store it may be noticed during the transfer.
  uint64_t verifier_ = 0;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_PROCEDURES_DATA_CALLS_H_
