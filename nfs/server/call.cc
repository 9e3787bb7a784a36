#include "nfs/server/call.h"

#include "nfs/procedures/attribute_calls.h"
#include "nfs/procedures/create_calls.h"
#include "nfs/procedures/listing_calls.h"
#include "nfs/procedures/name_calls.h"
#include "nfs/v3/listing.h"
#include "oncrpc/codec.h"

namespace pollux::nfs {
namespace {

using oncrpc::AcceptStatus;

// The largest results without their items are a directory's, behind the status.
constexpr size_t kResultBytes = 4 + kMaxDirectoryBytes;
constexpr size_t kBlockBytes = kMaxFileData;
static_assert(kBlockBytes >= kMaxNfspath3);
// Of what is read at once a part goes to the client while the next is read. Each costs a turn of
// two threads.
constexpr size_t kPartBytes = size_t{128} << 10;
static_assert(kBlockBytes <= kPartBytes * Storage::kMaxParts);

constexpr ClientRights kNoRights;  // of a client that is refused

}  // namespace

// Neither is touched before it is used: an idle server has no such pages.
Call::Call(Owner* owner, ServedExport* served, WriteVerifier* verifier)
    : owner_(owner),
      served_(served),
      block_(new uint8_t[kBlockBytes]),
      results_(new uint8_t[kResultBytes]) {
  context_.changes = &served->changes;
  context_.verifier = verifier;
  context_.block = {block_.get(), kBlockBytes};
}

void Call::Start(const rpcrdma::CallView& view, rpcrdma::ReplyHandle reply,
                 const ExportTree* tree) {
  context_.tree = tree;
  view_ = view;
  reply_.emplace(std::move(reply));
  outcome_ = {};
  refused_ = begun_ = Nfsstat3::kOk;
  piece_room_ = procedure() == Procedure::kRead ? reply_->PieceRoom() : 0;
  read_bytes_ = ahead_bytes_ = 0;
  holds_ = 1;
  served_->storage->Run(this);
}

void Call::WriteAhead(absl::AnyInvocable<void()> release) {
  const uint32_t bytes = read_bytes_.load(std::memory_order_acquire) - ahead_bytes_;
  if (bytes == 0 || !reply_->CanWrite()) return;
  ++holds_;
  const absl::Span<const uint8_t> piece = context_.block.subspan(ahead_bytes_, bytes);
  ahead_bytes_ += bytes;
  reply_->Write({.bytes = piece, .release = std::move(release)});
}

rpcrdma::ReplyHandle Call::TakeReply() {
  rpcrdma::ReplyHandle reply = *std::move(reply_);
  reply_.reset();
  return reply;
}

void Call::Run(Storage& storage, Identity& identity) {
  context_.identity = &identity;
  context_.rights = context_.tree->exported().RightsOf(view_.client_address);
  if (context_.rights == nullptr) {
    refused_ = Nfsstat3::kAcces;
    context_.rights = &kNoRights;
  }
  outcome_.authenticated =
      CredentialOf(view_.header.credential, *context_.rights, &context_.caller);
  if (outcome_.authenticated != oncrpc::AuthStatus::kOk) return Done();
  Dispatch(storage);
}

void Call::Dispatch(Storage& storage) {
  switch (procedure()) {
    case Procedure::kNull:
      return Done();
    case Procedure::kGetattr:
      return Reply(&Getattr);
    case Procedure::kSetattr:
      return Reply(&Setattr);
    case Procedure::kLookup:
      return Reply(&Lookup);
    case Procedure::kAccess:
      return Reply(&Access);
    case Procedure::kReadlink:
      return Reply(&Readlink);
    case Procedure::kRead:
      return Begin<ReadArgs>(storage);
    case Procedure::kWrite:
      return Begin<WriteArgs>(storage);
    case Procedure::kCreate:
      return Reply(&Create);
    case Procedure::kMkdir:
      return Reply(&Mkdir);
    case Procedure::kSymlink:
      return Reply(&Symlink);
    case Procedure::kMknod:
      return Reply(&Mknod);
    case Procedure::kRemove:
      return Reply(&Remove);
    case Procedure::kRmdir:
      return Reply(&Rmdir);
    case Procedure::kRename:
      return Reply(&Rename);
    case Procedure::kLink:
      return Reply(&Link);
    case Procedure::kReaddir:
      return Reply(&Readdir);
    case Procedure::kReaddirplus:
      return Reply(&Readdirplus);
    case Procedure::kFsstat:
      return Reply(&Fsstat);
    case Procedure::kFsinfo:
      return Reply(&Fsinfo);
    case Procedure::kPathconf:
      return Reply(&Pathconf);
    case Procedure::kCommit:
      return Begin<CommitArgs>(storage);
  }
  Fail(AcceptStatus::kProcedureUnavailable);
}

template <class Args, class Res>
void Call::Reply(Res (*serve)(const CallContext&, const Args&)) {
  Args args;
  if (!oncrpc::Decode(view_.reader(), &args)) return Fail(AcceptStatus::kGarbageArguments);
  Finish(refused_ == Nfsstat3::kOk ? serve(context_, args) : Res{.status = refused_});
}

template <class Args>
void Call::Begin(Storage& storage) {
  Args args;
  if (!oncrpc::Decode(view_.reader(), &args)) return Fail(AcceptStatus::kGarbageArguments);
  data_.emplace();
  begun_ = refused_ == Nfsstat3::kOk ? data_->Begin(context_, args) : refused_;
  if (begun_ != Nfsstat3::kOk || data_->transfer().kind == Transfer::Kind::kNone) {
    return Transferred(0);
  }
  const size_t read_bytes = data_->transfer().to.size();
  if (read_bytes > kPartBytes && read_bytes <= piece_room_) data_->ReadInParts(kPartBytes);
  const AsCaller as_caller(context_);
  if (as_caller.ok()) return storage.Begin(data_->transfer(), this);
  begun_ = Nfsstat3::kServerfault;
  Transferred(0);
}

void Call::PartTransferred(int bytes) {
  read_bytes_.store(static_cast<uint32_t>(bytes), std::memory_order_release);
  owner_->PostPart(this);
}

void Call::Transferred(int result) {
  if (result > 0) outcome_.moved_bytes = static_cast<uint64_t>(result);
  switch (procedure()) {
    case Procedure::kRead:
      return Finish(data_->EndRead(context_, begun_, result));
    case Procedure::kWrite:
      return Finish(data_->EndWrite(context_, begun_, result));
    default:
      return Finish(data_->EndCommit(context_, begun_, result));
  }
}

template <class Res>
void Call::Finish(const Res& result) {
  const oncrpc::Encoded encoded = oncrpc::Encode(result, {results_.get(), kResultBytes});
  if (!encoded.ok) return Fail(AcceptStatus::kSystemError);
  outcome_.status = result.status;
  outcome_.results = encoded.stream;
  outcome_.item = encoded.item;
  Done();
}

void Call::Fail(oncrpc::AcceptStatus status) {
  outcome_.accepted = status;
  Done();
}

// Its files are closed here: that may block. From PostDone() on the call is the owner's.
void Call::Done() {
  data_.reset();
  owner_->PostDone(this);
}

}  // namespace pollux::nfs
