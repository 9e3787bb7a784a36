// READ, WRITE and COMMIT on an export, in two halves: what comes before the transfer between memory
// and file, and what comes after. RFC 1813 sections 3.3.6, 3.3.7 and 3.3.21.
#ifndef POLLUX_NFS_PROCEDURES_DATA_CALLS_H_
#define POLLUX_NFS_PROCEDURES_DATA_CALLS_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "nfs/procedures/call_context.h"
#include "nfs/v3/files.h"

namespace pollux::nfs {

// One transfer between memory and a file, or the storing of what was written.
struct Transfer {
  enum class Kind : uint8_t { kNone, kRead, kWrite, kSync };
  Kind kind = Kind::kNone;  // kNone: nothing to move
  Fd file;
  uint64_t offset = 0;
  absl::Span<uint8_t> to;          // kRead
  size_t part_bytes = 0;           // kRead: each is told of, in order; 0: all at once
  absl::Span<const uint8_t> from;  // kWrite
  int flags = 0;                   // kWrite: RWF_DSYNC, RWF_SYNC
};

// Lives as long as its call.
class DataCall {
 public:
  // Each opens the file as the caller and says what to transfer; not kOk: nothing. On a storage
  // thread.
  Nfsstat3 Begin(const CallContext& context, const ReadArgs& args);
  Nfsstat3 Begin(const CallContext& context, const WriteArgs& args);
  Nfsstat3 Begin(const CallContext& context, const CommitArgs& args);
  const Transfer& transfer() const { return transfer_; }
  // Of what is to be read.
  void ReadInParts(size_t bytes) { transfer_.part_bytes = bytes; }

  // After the transfer, or without one when `begun` is not kOk. `done`: bytes moved, or minus the
  // errno. Any one thread; once.
  ReadRes EndRead(const CallContext& context, Nfsstat3 begun, int done);
  WriteRes EndWrite(const CallContext& context, Nfsstat3 begun, int done);
  CommitRes EndCommit(const CallContext& context, Nfsstat3 begun, int done);

 private:
  Nfsstat3 BeginChange(const CallContext& context, const NfsFh3& handle);

  Fd object_;
  WeakCache wcc_;
  Transfer transfer_;
  StableHow stable_ = StableHow::kUnstable;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_PROCEDURES_DATA_CALLS_H_
