#include "nfs/procedures/data_calls.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

#include "nfs/v3/errno_status.h"

namespace pollux::nfs {
namespace {

constexpr uint64_t kMaxFileSize = INT64_MAX;

int FlagsOf(StableHow stable) {
  switch (stable) {
    case StableHow::kDataSync:
      return RWF_DSYNC;
    case StableHow::kFileSync:
      return RWF_SYNC;
    case StableHow::kUnstable:
      break;
  }
  return 0;
}

}  // namespace

Nfsstat3 DataCall::Begin(const CallContext& context, const ReadArgs& args) {
  Nfsstat3 status = context.tree->Find(args.file.span(), &object_);
  if (status == Nfsstat3::kOk) {
    status = OpenFile(context, object_, /*write=*/false, &transfer_.file);
  }
  if (status != Nfsstat3::kOk) return status;
  transfer_.offset = args.offset;
  transfer_.to = context.block.first(std::min<size_t>(args.count, context.block.size()));
  // Nothing stands beyond the largest file, and the kernel refuses to read there.
  const bool within = args.offset < kMaxFileSize;
  if (within) {
    const uint64_t room = kMaxFileSize - args.offset;
    transfer_.to = transfer_.to.first(std::min<uint64_t>(transfer_.to.size(), room));
  }
  const bool reads = within && !transfer_.to.empty();
  transfer_.kind = reads ? Transfer::Kind::kRead : Transfer::Kind::kNone;
  return Nfsstat3::kOk;
}

ReadRes DataCall::EndRead(const CallContext& context, Nfsstat3 begun, int done) {
  const PostOpAttr attributes = AttributesOf(context, object_);
  if (begun == Nfsstat3::kOk && done < 0) begun = StatusOfErrno(-done);
  if (begun != Nfsstat3::kOk) return {.status = begun, .resfail = attributes};
  const auto count = static_cast<uint32_t>(done);
  // Nothing read where something was wanted is the end, wherever it has moved to since. A read that
  // came short says less: storage may have failed behind what it gave.
  const bool none = count == 0 && !transfer_.to.empty();
  const bool eof = none || (attributes.has_value() && transfer_.offset + count >= attributes->size);
  return {.resok = {.file_attributes = attributes,
                    .count = count,
                    .eof = eof,
                    .data = {transfer_.to.first(count)}}};
}

Nfsstat3 DataCall::BeginChange(const CallContext& context, const NfsFh3& handle) {
  const Nfsstat3 status = context.tree->Find(handle.span(), &object_);
  if (status != Nfsstat3::kOk) return status;
  wcc_.Begin(context, object_);
  if (context.rights->read_only) return Nfsstat3::kRofs;
  return OpenFile(context, object_, /*write=*/true, &transfer_.file);
}

Nfsstat3 DataCall::Begin(const CallContext& context, const WriteArgs& args) {
  const Nfsstat3 status = BeginChange(context, args.file);
  if (status != Nfsstat3::kOk) return status;
  if (args.count > args.data.bytes.size()) return Nfsstat3::kInval;
  if (args.offset > kMaxFileSize - args.count) return Nfsstat3::kFbig;
  stable_ = args.stable;
  verifier_ = context.verifier->load();
  transfer_.offset = args.offset;
  transfer_.from = args.data.bytes.first(args.count);
  transfer_.flags = FlagsOf(args.stable);
  transfer_.kind = args.count > 0 ? Transfer::Kind::kWrite : Transfer::Kind::kNone;
  return Nfsstat3::kOk;
}

WriteRes DataCall::EndWrite(const CallContext& context, Nfsstat3 begun, int done) {
  if (begun == Nfsstat3::kOk && done < 0) {
    begun = StatusOfErrno(-done);
    // With these an UNSTABLE write has taken nothing. A write that is also stored reports the
    // errors of earlier ones.
    if (stable_ != StableHow::kUnstable || (done != -ENOSPC && done != -EDQUOT && done != -EFBIG)) {
      LoseUncommitted(context);
    }
  }
  if (begun == Nfsstat3::kOk && done == 0 && !transfer_.from.empty()) begun = Nfsstat3::kIo;
  WriteRes result{.status = begun};
  if (begun != Nfsstat3::kOk) {
    result.resfail = wcc_.End(context, object_);
    return result;
  }
  result.resok = {.file_wcc = wcc_.End(context, object_),
                  .count = static_cast<uint32_t>(done),
                  .committed = stable_,
                  .verf = verifier_};
  return result;
}

Nfsstat3 DataCall::Begin(const CallContext& context, const CommitArgs& args) {
  const Nfsstat3 status = BeginChange(context, args.file);
  if (status == Nfsstat3::kOk) transfer_.kind = Transfer::Kind::kSync;
  // COMMIT itself changes nothing.
  commit_wcc_ = wcc_.End(context, object_);
  return status;
}

CommitRes DataCall::EndCommit(const CallContext& context, Nfsstat3 begun, int done) {
  if (begun == Nfsstat3::kOk && done < 0) {
    begun = StatusOfErrno(-done);
    LoseUncommitted(context);
  }
  CommitRes result{.status = begun};
  if (begun == Nfsstat3::kOk) {
    result.resok = {.file_wcc = commit_wcc_, .verf = context.verifier->load()};
  } else {
    result.resfail = commit_wcc_;
  }
  return result;
}

}  // namespace pollux::nfs
